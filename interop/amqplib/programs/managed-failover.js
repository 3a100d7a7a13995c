// managed-failover.js COUNT: the same with amqp-connection-manager, which reconnects to the next of its addresses, sets the
// channel up again, and sends again what was not confirmed.
const manager = require('amqp-connection-manager');
const { urls } = require('./broker');

const count = Number(process.argv[2]);
const received = new Set();

async function main() {
  const connection = manager.connect(urls, { reconnectTimeInSeconds: 0.05 });
  let connections = 0;
  connection.on('connect', () => {
    if (connections++ > 0) console.log('reconnected');
  });
  let finish;
  const finished = new Promise((resolve) => {
    finish = resolve;
  });
  const take = (channel) => (message) => {
    const n = Number(message.content);
    console.log(`received ${n}${message.fields.redelivered ? ' again' : ''}`);
    received.add(n);
    channel.ack(message);
    if (received.size === count) finish();
  };
  const wrapper = connection.createChannel({
    setup: async (channel) => {
      await channel.assertQueue('failover.q', { durable: true });
      await channel.prefetch(20);
      await channel.consume('failover.q', take(channel));
    },
  });
  await wrapper.waitForConnect();
  for (let n = 1; n <= count; n += 10) {
    await Promise.all(Array.from({ length: Math.min(10, count - n + 1) }, (_, i) => publish(connection, wrapper, n + i)));
  }
  await finished;
  console.log('done');
}

// A message under way when the connection is lost is either sent once more by the manager, which does not say so, or
// handed back, which with amqplib 2.3 is what happens.
async function publish(connection, wrapper, n) {
  const lost = () => console.log(`published ${n} again`);
  connection.once('disconnect', lost);
  for (let confirmed = false; !confirmed; ) {
    try {
      await wrapper.sendToQueue('failover.q', Buffer.from(String(n)), { persistent: true });
      confirmed = true;
    } catch {
      lost();
    }
  }
  connection.off('disconnect', lost);
  console.log(`confirmed ${n}`);
}

main();
