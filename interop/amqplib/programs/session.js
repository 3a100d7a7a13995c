// session.js: works in the session of AMQP_SESSION, through two failovers; the package programs says what each line shows.
// Nothing but the client property knows of sessions.
const amqp = require('amqplib');
const { setTimeout: sleep } = require('node:timers/promises');
const { urls } = require('./broker');

const clientProperties = { 'x-session-id': process.env.AMQP_SESSION };
let connections = 0;

async function work(connection) {
  const lost = new Promise((resolve) => connection.on('close', resolve));
  connection.on('error', () => {});
  const channel = await connection.createConfirmChannel();
  channel.on('error', (error) => console.log(`channel closed: ${error.message}`));
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
  await lost;
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
  for (let tries = 0; ; tries++) {
    try {
      const connection = await amqp.connect(urls[tries % urls.length], { clientProperties });
      connections++;
      await work(connection);
    } catch {
      await sleep(50);
    }
  }
}

main();
