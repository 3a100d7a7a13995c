// Tutorials 3, 4 and 5: logs.js emit TYPE KEY TEXT | receive TYPE KEY... (TYPE is fanout, direct or topic).
const { connect } = require('./broker');

async function channelWithExchange(type) {
  const connection = await connect();
  const channel = await connection.createChannel();
  await channel.assertExchange(`logs_${type}`, type, { durable: false });
  return { connection, channel };
}

async function emit(type, key, text) {
  const { connection, channel } = await channelWithExchange(type);
  channel.publish(`logs_${type}`, key, Buffer.from(text));
  console.log(` [x] Sent ${key}:${text}`);
  await channel.close();
  await connection.close();
}

async function receive(type, ...keys) {
  const { channel } = await channelWithExchange(type);
  const { queue } = await channel.assertQueue('', { exclusive: true });
  for (const key of keys.length ? keys : ['']) await channel.bindQueue(queue, `logs_${type}`, key);
  await channel.consume(queue, (message) => console.log(` [x] ${message.fields.routingKey}:${message.content}`), { noAck: true });
  console.log(' [*] Waiting for logs');
}

({ emit, receive })[process.argv[2]](...process.argv.slice(3));
