// failover.js COUNT: publishes and consumes numbered messages while a node dies. amqplib takes one address at a time, so
// the application walks through its list.
const amqp = require('amqplib');
const { setTimeout: sleep } = require('node:timers/promises');
const { urls } = require('./broker');

const count = Number(process.argv[2]);
const published = new Set();
const confirmed = new Set();
const received = new Set();

// Works on a connection until it is lost.
async function work(connection) {
  const lost = new Promise((resolve) => connection.on('close', resolve));
  connection.on('error', () => {});
  const channel = await connection.createConfirmChannel();
  channel.on('error', () => {});
  await channel.assertQueue('failover.q', { durable: true });
  await channel.prefetch(20);
  await channel.consume('failover.q', (message) => {
    const n = Number(message.content);
    console.log(`received ${n}${message.fields.redelivered ? ' again' : ''}`);
    received.add(n);
    channel.ack(message);
    tellWhenDone();
  });
  await publish(channel);
  await lost;
}

let told = false;

function tellWhenDone() {
  if (told || confirmed.size < count || received.size < count) return;
  told = true;
  console.log('done');
}

// Publishes what is not confirmed yet, ten at a time.
async function publish(channel) {
  for (let n = 1; n <= count; n++) {
    if (confirmed.has(n)) continue;
    if (published.has(n)) console.log(`published ${n} again`);
    published.add(n);
    channel.sendToQueue('failover.q', Buffer.from(String(n)), { persistent: true, mandatory: true }, (error) => {
      if (error) return;
      confirmed.add(n);
      console.log(`confirmed ${n}`);
      tellWhenDone();
    });
    if (n % 10 === 0) await channel.waitForConfirms();
  }
  await channel.waitForConfirms();
}

async function main() {
  for (let tries = 0, connections = 0; ; tries++) {
    try {
      const connection = await amqp.connect(urls[tries % urls.length]);
      if (connections++ > 0) console.log('reconnected');
      await work(connection);
    } catch {
      await sleep(50);
    }
  }
}

main();
