//! failover COUNT [own]: publishes and consumes numbered messages while a node dies. lapin's automatic recovery knows one address,
//! here that of a balancer before the nodes; it restores channels, prefetch, queue and consumer. If the loss was first felt at a
//! write it never ends and tells nobody (io_loop.rs goes on as long as there are frames that no socket will take), so nothing is
//! waited for longer than PATIENCE; the connection is then given up for another one. With "own" that is done at every error,
//! without automatic recovery.
use std::collections::HashSet;
use std::io;
use std::time::Duration;

use futures_lite::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Result};
use tokio::sync::oneshot;

const BATCH: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(10);
const CONNECTIONS: u32 = 20;

/// What outlives a connection.
#[derive(Default)]
struct Published {
    confirmed: u32, // all up to this one are
    tried: HashSet<u32>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let count: u32 = args.next().and_then(|n| n.parse().ok()).expect("failover COUNT [own]");
    let mut properties = ConnectionProperties::default();
    if args.next().is_none() {
        properties = properties.enable_auto_recover();
    }
    let url = std::env::var("AMQP_BALANCED").expect("AMQP_BALANCED");
    let (mut published, mut received) = (Published::default(), HashSet::new());
    for attempt in 1.. {
        let lost = async {
            let connection = soon(Connection::connect(url.trim_end_matches('/'), properties.clone())).await?;
            if attempt > 1 {
                println!("reconnected");
            }
            work(&connection, count, &mut published, &mut received).await
        };
        match lost.await {
            Err(error) if attempt == CONNECTIONS => return Err(error),
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    Ok(())
}

/// Waits for an answer of lapin's, but not for ever.
async fn soon<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(answered) => answered,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    }
}

/// Publishes and consumes until the connection is lost, for lapin too.
async fn work(connection: &Connection, count: u32, published: &mut Published, received: &mut HashSet<String>) -> Result<()> {
    let worker = soon(connection.create_channel()).await?;
    soon(worker.queue_declare("failover.q".into(), QueueDeclareOptions::durable(), FieldTable::default())).await?;
    soon(worker.basic_qos(20, BasicQosOptions::default())).await?;
    let channel = soon(connection.create_channel()).await?;
    soon(channel.confirm_select(ConfirmSelectOptions::default())).await?;
    let (finished, all) = oneshot::channel();
    tokio::select! {
        lost = publish_all(&channel, count, published, all) => lost,
        lost = consume(&worker, count, received, finished) => lost,
    }
}

async fn publish_all(channel: &Channel, count: u32, published: &mut Published, all: oneshot::Receiver<()>) -> Result<()> {
    while published.confirmed < count {
        let numbers = published.confirmed + 1..=count.min(published.confirmed + BATCH);
        while let Err(error) = soon(publish(channel, numbers.clone(), &mut published.tried)).await {
            soon(channel.wait_for_recovery(error)).await?;
            println!("reconnected");
        }
        published.confirmed = *numbers.end();
        numbers.for_each(|n| println!("confirmed {n}"));
    }
    all.await.expect("the consumer goes on for ever");
    println!("done");
    std::future::pending().await
}

/// Publishes the numbers and waits for their confirms; all must come on one connection.
async fn publish(channel: &Channel, numbers: impl Iterator<Item = u32>, tried: &mut HashSet<u32>) -> Result<()> {
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    let mut confirms = Vec::new();
    for n in numbers {
        if !tried.insert(n) {
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

async fn consume(channel: &Channel, count: u32, received: &mut HashSet<String>, finished: oneshot::Sender<()>) -> Result<()> {
    let mut finished = Some(finished);
    let mut consumer = soon(channel.basic_consume("failover.q".into(), "worker".into(), BasicConsumeOptions::default(), FieldTable::default())).await?;
    loop {
        if received.len() == count as usize {
            if let Some(finished) = finished.take() {
                let _ = finished.send(());
            }
        }
        let delivery = match consumer.next().await.expect("nobody cancels the consumer") {
            Ok(delivery) => delivery,
            Err(error) => {
                soon(channel.wait_for_recovery(error)).await?;
                continue;
            }
        };
        let body = String::from_utf8_lossy(&delivery.data).into_owned();
        println!("received {body}{}", if delivery.redelivered { " again" } else { "" });
        received.insert(body);
        if let Err(error) = delivery.ack(BasicAckOptions::default()).await {
            soon(channel.wait_for_recovery(error)).await?;
        }
    }
}
