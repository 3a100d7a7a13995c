//! failover COUNT: publishes and consumes numbered messages while a node dies. lapin's automatic recovery knows one address, here
//! that of a balancer before the nodes; it restores channels, queue and consumer, but for the prefetch.
use std::collections::HashSet;
use std::time::Duration;

use futures_lite::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Result};
use tokio::sync::oneshot;

const BATCH: u32 = 10;

#[tokio::main]
async fn main() -> Result<()> {
    let count: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).expect("failover COUNT");
    let url = std::env::var("AMQP_BALANCED").expect("AMQP_BALANCED");
    let url = url.trim_end_matches('/');
    let connection = Connection::connect(url, ConnectionProperties::default().enable_auto_recover()).await?;
    let (finished, all) = oneshot::channel();
    let worker = connection.create_channel().await?;
    worker.queue_declare("failover.q".into(), QueueDeclareOptions::durable(), FieldTable::default()).await?;
    worker.basic_qos(20, BasicQosOptions::default()).await?;
    tokio::spawn(consume(worker, count, finished));
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut published = HashSet::new();
    for first in (1..=count).step_by(BATCH as usize) {
        let numbers: Vec<u32> = (first..=count.min(first + BATCH - 1)).collect();
        while let Err(error) = publish(&channel, &numbers, &mut published).await {
            match channel.wait_for_recovery(error).await {
                Ok(()) => println!("reconnected"),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        numbers.iter().for_each(|n| println!("confirmed {n}"));
    }
    all.await.expect("the consumer goes on for ever");
    println!("done");
    std::future::pending().await
}

/// Publishes the numbers and waits for their confirms; all must come on one connection.
async fn publish(channel: &Channel, numbers: &[u32], published: &mut HashSet<u32>) -> Result<()> {
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    let mut confirms = Vec::new();
    for n in numbers {
        if !published.insert(*n) {
            println!("published {n} again");
        }
        let properties = BasicProperties::default().with_delivery_mode(2);
        confirms.push(channel.basic_publish("".into(), "failover.q".into(), options, n.to_string().as_bytes(), properties).await?);
    }
    for confirm in confirms {
        confirm.await?;
    }
    Ok(())
}

async fn consume(channel: Channel, count: u32, finished: oneshot::Sender<()>) -> Result<()> {
    let mut finished = Some(finished);
    let mut received = HashSet::new();
    let mut consumer = channel.basic_consume("failover.q".into(), "worker".into(), BasicConsumeOptions::default(), FieldTable::default()).await?;
    while let Some(delivery) = consumer.next().await {
        let delivery = match delivery {
            Ok(delivery) => delivery,
            Err(error) => {
                channel.wait_for_recovery(error).await?;
                continue;
            }
        };
        let body = String::from_utf8_lossy(&delivery.data).into_owned();
        println!("received {body}{}", if delivery.redelivered { " again" } else { "" });
        received.insert(body);
        if received.len() == count as usize {
            if let Some(finished) = finished.take() {
                let _ = finished.send(());
            }
        }
        if let Err(error) = delivery.ack(BasicAckOptions::default()).await {
            channel.wait_for_recovery(error).await?;
        }
    }
    println!("the consumer has ended");
    Ok(())
}
