//! One conversation through every part of the protocol; the package programs says what each line shows.
use std::collections::HashSet;
use std::time::Duration;

use futures_lite::StreamExt;
use lapin::message::{BasicGetMessage, Delivery};
use lapin::options::*;
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ErrorKind, ExchangeKind, Queue, Result};

async fn connect() -> Result<Connection> {
    let url = std::env::var("AMQP_URL").expect("AMQP_URL");
    Connection::connect(url.trim_end_matches('/'), ConnectionProperties::default()).await
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn dead_letters() -> FieldTable {
    let mut table = FieldTable::default();
    table.insert("x-dead-letter-exchange".into(), text(""));
    table.insert("x-dead-letter-routing-key".into(), text("basics.dead"));
    table
}

fn body(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.data).into_owned()
}

/// The next message of the queue, which may be about to come.
async fn get(channel: &Channel, queue: &str) -> Result<BasicGetMessage> {
    loop {
        if let Some(message) = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await? {
            return Ok(message);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn declare(channel: &Channel, queue: &str, options: QueueDeclareOptions, arguments: FieldTable) -> Result<Queue> {
    channel.queue_declare(queue.into(), options, arguments).await
}

async fn waiting(channel: &Channel) -> Result<u32> {
    Ok(declare(channel, "basics.q", QueueDeclareOptions::default().passive(), FieldTable::default()).await?.message_count())
}

async fn send(channel: &Channel, key: &str, data: &[u8], properties: BasicProperties) -> Result<()> {
    channel.basic_publish("".into(), key.into(), BasicPublishOptions::default(), data, properties).await?.await?;
    Ok(())
}

async fn publishing(channel: &Channel) -> Result<()> {
    for queue in ["basics.dead", "basics.q", "basics.ttl"] {
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
    }
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel.exchange_declare("basics.x".into(), ExchangeKind::Topic, durable, FieldTable::default()).await?;
    declare(channel, "basics.dead", QueueDeclareOptions::durable(), FieldTable::default()).await?;
    let queue = declare(channel, "basics.q", QueueDeclareOptions::durable(), dead_letters()).await?;
    channel.queue_bind("basics.q".into(), "basics.x".into(), "a.#".into(), QueueBindOptions::default(), FieldTable::default()).await?;
    println!("declared: {} messages, {} consumers", queue.message_count(), queue.consumer_count());
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let mandatory = BasicPublishOptions { mandatory: true, ..Default::default() };
    let mut confirms = Vec::new();
    for i in 1..=100 {
        let persistent = BasicProperties::default().with_delivery_mode(2);
        confirms.push(channel.basic_publish("basics.x".into(), "a.b".into(), mandatory, i.to_string().as_bytes(), persistent).await?);
    }
    let mut confirmed = 0;
    for confirm in confirms {
        confirmed += u32::from(confirm.await?.is_ack());
    }
    println!("confirmed: {confirmed} of 100");
    println!("waiting: {}", waiting(channel).await?);
    Ok(())
}

async fn consuming(connection: &Connection, channel: &Channel) -> Result<()> {
    let worker = connection.create_channel().await?;
    worker.basic_qos(10, BasicQosOptions::default()).await?;
    let mut consumer = worker.basic_consume("basics.q".into(), "".into(), BasicConsumeOptions::default(), FieldTable::default()).await?;
    let mut held = Vec::new();
    while held.len() < 10 {
        held.push(consumer.next().await.expect("a delivery")?);
    }
    println!("prefetch 10: {} in hand, {} waiting", held.len(), waiting(channel).await?);
    held[7].ack(BasicAckOptions { multiple: true }).await?;
    held[8].nack(BasicNackOptions { multiple: false, requeue: true }).await?;
    held[9].reject(BasicRejectOptions { requeue: false }).await?;
    while held.len() < 10 + 90 + 1 {
        let delivery = consumer.next().await.expect("a delivery")?;
        delivery.ack(BasicAckOptions::default()).await?;
        held.push(delivery);
    }
    let distinct: HashSet<String> = held.iter().map(body).collect();
    let again: Vec<String> = held.iter().filter(|d| d.redelivered).map(body).collect();
    println!("drained: {} distinct, again: {}", distinct.len(), again.join(","));
    worker.close(200, "".into()).await
}

async fn dead_letter(channel: &Channel) -> Result<()> {
    let message = get(channel, "basics.dead").await?;
    let headers = message.properties.headers().clone().expect("headers");
    let Some(AMQPValue::FieldArray(deaths)) = headers.inner().get("x-death") else { panic!("no x-death") };
    let AMQPValue::FieldTable(death) = &deaths.as_slice()[0] else { panic!("x-death holds no table") };
    let field = |name: &str| match death.inner().get(name) {
        Some(AMQPValue::LongString(s)) => s.to_string(),
        other => format!("{other:?}"),
    };
    println!("dead: {}, {} from {}", body(&message), field("reason"), field("queue"));
    Ok(())
}

/// The code with which the broker closed the channel.
fn code<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => "not refused".to_string(),
        Err(error) => match error.kind() {
            ErrorKind::ProtocolError(e) => e.get_id().to_string(),
            other => format!("{other:?}"),
        },
    }
}

async fn refusals(connection: &Connection, channel: &Channel) -> Result<()> {
    let mandatory = BasicPublishOptions { mandatory: true, ..Default::default() };
    let confirm = channel.basic_publish("basics.x".into(), "zzz".into(), mandatory, b"lost", BasicProperties::default()).await?.await?;
    let returned = confirm.take_message().expect("a returned message");
    println!("returned: {} {} {}", returned.reply_code, returned.reply_text, returned.routing_key);
    declare(channel, "basics.mine", QueueDeclareOptions::exclusive(), FieldTable::default()).await?;
    let other = connect().await?;
    let passive = || QueueDeclareOptions::default().passive();
    println!("exclusive: {}", code(declare(&other.create_channel().await?, "basics.mine", passive(), FieldTable::default()).await));
    other.close(200, "".into()).await?;
    let own = connection.create_channel().await?;
    println!("inequivalent: {}", code(declare(&own, "basics.q", QueueDeclareOptions::durable(), FieldTable::default()).await));
    let own = connection.create_channel().await?;
    println!("missing: {}", code(declare(&own, "basics.none", passive(), FieldTable::default()).await));
    Ok(())
}

async fn headers(channel: &Channel) -> Result<()> {
    let mut nested = FieldTable::default();
    nested.insert("k".into(), text("v"));
    let mut list = FieldArray::default();
    list.push(AMQPValue::LongInt(1));
    list.push(text("two"));
    let mut headers = FieldTable::default();
    for (key, value) in [
        ("s", text("text")), ("i", AMQPValue::LongInt(-7)), ("l", AMQPValue::LongLongInt(1 << 40)), ("b", AMQPValue::Boolean(true)),
        ("d", AMQPValue::Double(1.5)), ("t", AMQPValue::Timestamp(1_700_000_000)), ("x", AMQPValue::ByteArray(vec![0, 255].into())),
        ("n", AMQPValue::FieldTable(nested)), ("a", AMQPValue::FieldArray(list)), ("v", AMQPValue::Void),
    ] {
        headers.insert(key.into(), value);
    }
    let properties = BasicProperties::default()
        .with_content_type("text/plain".into()).with_content_encoding("utf-8".into()).with_headers(headers).with_delivery_mode(2).with_priority(5)
        .with_correlation_id("corr".into()).with_reply_to("reply".into()).with_expiration("60000".into()).with_message_id("msg".into())
        .with_timestamp(1_700_000_000).with_type("kind".into()).with_user_id("guest".into()).with_app_id("app".into());
    send(channel, "basics.q", b"", properties).await?;
    let p = get(channel, "basics.q").await?.delivery.properties;
    let h = p.headers().clone().expect("headers");
    let shown: Vec<String> = ["s", "i", "l", "b", "d", "t", "x", "n", "a", "v"].iter().map(|k| format!("{k}={}", show(&h.inner()[*k]))).collect();
    println!("headers: {}", shown.join(" "));
    let word = |s: &Option<ShortString>| s.as_ref().map(ToString::to_string).unwrap_or_default();
    println!(
        "properties: {} {} {} {} {} {} {} {} {} {} {} {}", word(p.content_type()), word(p.content_encoding()), p.delivery_mode().unwrap_or(0),
        p.priority().unwrap_or(0), word(p.correlation_id()), word(p.reply_to()), word(p.expiration()), word(p.message_id()), p.timestamp().unwrap_or(0),
        word(p.kind()), word(p.user_id()), word(p.app_id())
    );
    Ok(())
}

fn show(value: &AMQPValue) -> String {
    match value {
        AMQPValue::LongString(s) => s.to_string(),
        AMQPValue::LongInt(n) => n.to_string(),
        AMQPValue::LongLongInt(n) => n.to_string(),
        AMQPValue::Boolean(b) => b.to_string(),
        AMQPValue::Double(d) => d.to_string(),
        AMQPValue::Timestamp(t) => t.to_string(),
        AMQPValue::ByteArray(b) => b.as_slice().iter().map(|octet| format!("{octet:02x}")).collect(),
        AMQPValue::FieldTable(t) => t.inner().iter().map(|(k, v)| format!("{k}:{}", show(v))).collect::<Vec<_>>().join(","),
        AMQPValue::FieldArray(a) => a.as_slice().iter().map(show).collect::<Vec<_>>().join(","),
        AMQPValue::Void => "null".to_string(),
        other => format!("{other:?}"),
    }
}

async fn large(channel: &Channel) -> Result<()> {
    let large: Vec<u8> = (0..5 << 20).map(|i| i as u8).collect();
    send(channel, "basics.q", &large, BasicProperties::default()).await?;
    let message = get(channel, "basics.q").await?;
    println!("large: {} bytes, {}", message.data.len(), if message.data == large { "the same" } else { "changed" });
    Ok(())
}

async fn cancelled(connection: &Connection, channel: &Channel) -> Result<()> {
    let watcher = connection.create_channel().await?;
    declare(&watcher, "basics.gone", QueueDeclareOptions::default(), FieldTable::default()).await?;
    let mut consumer = watcher.basic_consume("basics.gone".into(), "watcher".into(), BasicConsumeOptions::default(), FieldTable::default()).await?;
    channel.queue_delete("basics.gone".into(), QueueDeleteOptions::default()).await?;
    assert!(consumer.next().await.is_none()); // lapin ends the consumer's stream
    println!("cancelled: {}", consumer.tag());
    watcher.close(200, "".into()).await // one that is dropped is closed behind our back, and may be just when the connection is
}

async fn rpc(connection: &Connection, channel: &Channel) -> Result<()> {
    let no_ack = BasicConsumeOptions { no_ack: true, ..Default::default() };
    let server = connection.create_channel().await?;
    declare(&server, "basics.rpc", QueueDeclareOptions::default().auto_delete(), FieldTable::default()).await?;
    let mut requests = server.basic_consume("basics.rpc".into(), "".into(), no_ack, FieldTable::default()).await?;
    let serving = tokio::spawn(async move {
        let request = requests.next().await.expect("a request")?;
        let doubled = 2 * body(&request).parse::<i32>().expect("a number");
        let properties = BasicProperties::default().with_correlation_id(request.properties.correlation_id().clone().unwrap_or_default());
        send(&server, request.properties.reply_to().as_ref().expect("reply-to").as_str(), doubled.to_string().as_bytes(), properties).await?;
        server.close(200, "".into()).await
    });
    let mut answers = channel.basic_consume("amq.rabbitmq.reply-to".into(), "".into(), no_ack, FieldTable::default()).await?;
    let properties = BasicProperties::default().with_reply_to("amq.rabbitmq.reply-to".into()).with_correlation_id("1".into());
    send(channel, "basics.rpc", b"21", properties).await?;
    let answer = answers.next().await.expect("an answer")?;
    assert_eq!(answer.properties.correlation_id(), &Some("1".into()));
    println!("rpc: {}", body(&answer));
    serving.await.expect("a server")
}

#[tokio::main]
async fn main() -> Result<()> {
    let connection = connect().await?;
    let channel = connection.create_channel().await?;
    publishing(&channel).await?;
    consuming(&connection, &channel).await?;
    dead_letter(&channel).await?;
    refusals(&connection, &channel).await?;
    let mut arguments = dead_letters();
    arguments.insert("x-message-ttl".into(), AMQPValue::LongInt(50));
    declare(&channel, "basics.ttl", QueueDeclareOptions::default(), arguments).await?;
    send(&channel, "basics.ttl", b"late", BasicProperties::default()).await?;
    dead_letter(&channel).await?;
    headers(&channel).await?;
    large(&channel).await?;
    cancelled(&connection, &channel).await?;
    rpc(&connection, &channel).await?;
    connection.close(200, "".into()).await?;
    println!("closed");
    Ok(())
}
