// recovering-session.js: the same with amqplib's own recovery, which knows one address, here that of a balancer before the nodes,
// and calls setup on each connection. It closes a connection in order when setup fails: x-session-on-close keeps the session then.
const amqp = require('amqplib');

const clientProperties = { 'x-session-id': process.env.AMQP_SESSION, 'x-session-on-close': 'keep' };
let connections = 0;

async function setup(connection) {
  connections++;
  const channel = await connection.createConfirmChannel();
  channel.on('error', () => {});
  const own = await channel.assertQueue('session.own', { exclusive: true });
  await channel.assertQueue('session.q', { durable: true });
  if (connections === 1) channel.sendToQueue('session.own', Buffer.from('mine'));
  else console.log(`own ${own.messageCount}`);
  for (let n = 1; n <= 100; n++) {
    channel.sendToQueue('session.q', Buffer.from(String(n)), { persistent: true, mandatory: true, headers: { 'x-dedup-id': `message-${n}` } });
  }
  await channel.waitForConfirms();
  console.log('published');
  await consume(connection);
}

async function consume(connection) {
  const channel = await connection.createChannel();
  channel.on('error', (error) => console.log(`channel closed: ${error.message}`));
  await channel.prefetch(100);
  const held = [];
  await channel.consume('session.q', (message) => {
    const { deliveryTag, redelivered } = message.fields;
    console.log(`held ${message.content} ${deliveryTag}${redelivered ? ' again' : ''}`);
    held.push(message);
    if (held.length < 100 || connections < 3) return;
    for (const message of held) channel.ack(message);
    console.log('settled');
  });
}

async function main() {
  const connection = await amqp.connect(process.env.AMQP_BALANCED, { clientProperties, recovery: { initialDelay: 50, maxDelay: 100, setup } });
  connection.on('error', () => {});
}

main();
