// Tutorial 6: rpc.js server | client N...
const { randomUUID } = require('node:crypto');
const { connect } = require('./broker');

const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));

async function server() {
  const channel = await (await connect()).createChannel();
  await channel.assertQueue('rpc_queue', { durable: false });
  await channel.prefetch(1);
  await channel.consume('rpc_queue', (message) => {
    const { replyTo, correlationId } = message.properties;
    console.log(` [.] fib(${message.content})`);
    channel.sendToQueue(replyTo, Buffer.from(String(fib(Number(message.content)))), { correlationId });
    channel.ack(message);
  });
  console.log(' [x] Awaiting requests');
}

async function client(...numbers) {
  const connection = await connect();
  const channel = await connection.createChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  const waiting = new Map();
  await channel.consume(queue, (message) => waiting.get(message.properties.correlationId)(message.content), { noAck: true });
  for (const n of numbers) {
    const correlationId = randomUUID();
    const answer = await new Promise((resolve) => {
      waiting.set(correlationId, resolve);
      channel.sendToQueue('rpc_queue', Buffer.from(n), { correlationId, replyTo: queue });
    });
    console.log(` [.] Got ${answer} for fib(${n})`);
  }
  await connection.close();
}

({ server, client })[process.argv[2]](...process.argv.slice(3));
