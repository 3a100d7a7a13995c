// One conversation through every part of the protocol; the package programs says what each line shows.
const { once } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const { connect } = require('./broker');

// The next message of the queue, which may be about to come.
async function get(channel, queue) {
  for (;;) {
    const message = await channel.get(queue, { noAck: true });
    if (message) return message;
    await sleep(20);
  }
}

// The code with which the broker closes the channel of the step.
async function refused(connection, step) {
  const channel = await connection.createChannel();
  channel.on('error', () => {});
  try {
    await step(channel);
  } catch (error) {
    return error.code;
  }
  return 'not refused';
}

const deadLetters = { deadLetterExchange: '', deadLetterRoutingKey: 'basics.dead' };

async function publishing(channel) {
  for (const queue of ['basics.dead', 'basics.q', 'basics.ttl']) await channel.deleteQueue(queue);
  await channel.assertExchange('basics.x', 'topic', { durable: true });
  await channel.assertQueue('basics.dead', { durable: true });
  const declared = await channel.assertQueue('basics.q', { durable: true, ...deadLetters });
  await channel.bindQueue('basics.q', 'basics.x', 'a.#');
  console.log(`declared: ${declared.messageCount} messages, ${declared.consumerCount} consumers`);
  let confirmed = 0;
  for (let i = 1; i <= 100; i++) {
    channel.publish('basics.x', 'a.b', Buffer.from(String(i)), { persistent: true, mandatory: true }, (error) => {
      if (!error) confirmed++;
    });
  }
  await channel.waitForConfirms();
  console.log(`confirmed: ${confirmed} of 100`);
  console.log(`waiting: ${(await channel.checkQueue('basics.q')).messageCount}`);
}

async function consuming(connection, channel) {
  const worker = await connection.createChannel();
  await worker.prefetch(10);
  const held = [];
  let arrived = () => {};
  const until = (count) =>
    new Promise((resolve) => {
      arrived = () => held.length >= count && resolve();
      arrived();
    });
  let handle = (message) => held.push(message);
  await worker.consume('basics.q', (message) => {
    handle(message);
    arrived();
  });
  await until(10);
  console.log(`prefetch 10: ${held.length} in hand, ${(await channel.checkQueue('basics.q')).messageCount} waiting`);
  handle = (message) => {
    held.push(message);
    worker.ack(message);
  };
  worker.ack(held[7], true);
  worker.nack(held[8], false, true);
  worker.reject(held[9], false);
  await until(10 + 90 + 1);
  const again = held.filter((message) => message.fields.redelivered).map((message) => message.content);
  console.log(`drained: ${new Set(held.map((message) => message.content.toString())).size} distinct, again: ${again}`);
  await worker.close();
}

async function deadLetter(channel) {
  const message = await get(channel, 'basics.dead');
  const [death] = message.properties.headers['x-death'];
  console.log(`dead: ${message.content}, ${death.reason} from ${death.queue}`);
}

async function refusals(connection, channel) {
  const returned = once(channel, 'return');
  channel.publish('basics.x', 'zzz', Buffer.from('lost'), { mandatory: true });
  const [{ fields }] = await returned;
  console.log(`returned: ${fields.replyCode} ${fields.replyText} ${fields.routingKey}`);
  await channel.assertQueue('basics.mine', { exclusive: true });
  const other = await connect();
  console.log(`exclusive: ${await refused(other, (ch) => ch.checkQueue('basics.mine'))}`);
  await other.close();
  console.log(`inequivalent: ${await refused(connection, (ch) => ch.assertQueue('basics.q', { durable: true }))}`);
  console.log(`missing: ${await refused(connection, (ch) => ch.checkQueue('basics.none'))}`);
}

async function content(channel) {
  const headers = {
    s: 'text', i: -7, l: 2 ** 40, b: true, d: 1.5, t: { '!': 'timestamp', value: 1700000000 }, x: Buffer.from([0, 255]), n: { k: 'v' },
    a: [1, 'two'], v: null,
  };
  channel.sendToQueue('basics.q', Buffer.alloc(0), {
    contentType: 'text/plain', contentEncoding: 'utf-8', headers, persistent: true, priority: 5, correlationId: 'corr', replyTo: 'reply',
    expiration: '60000', messageId: 'msg', timestamp: 1700000000, type: 'kind', userId: 'guest', appId: 'app',
  });
  const { properties: p } = await get(channel, 'basics.q');
  const h = p.headers;
  console.log(`headers: s=${h.s} i=${h.i} l=${h.l} b=${h.b} d=${h.d} t=${h.t.value} x=${h.x.toString('hex')} n=k:${h.n.k} a=${h.a} v=${h.v}`);
  console.log('properties:', p.contentType, p.contentEncoding, p.deliveryMode, p.priority, p.correlationId, p.replyTo, p.expiration, p.messageId,
    p.timestamp, p.type, p.userId, p.appId);
  const large = Buffer.alloc(5 << 20, Buffer.from([...Array(256).keys()]));
  channel.sendToQueue('basics.q', large);
  const { content: body } = await get(channel, 'basics.q');
  console.log(`large: ${body.length} bytes, ${body.equals(large) ? 'the same' : 'changed'}`);
}

async function cancelled(connection, channel) {
  const watcher = await connection.createChannel();
  await watcher.assertQueue('basics.gone');
  const end = new Promise((resolve) => {
    watcher.consume('basics.gone', (message) => message === null && resolve(), { consumerTag: 'watcher' });
  });
  await watcher.checkQueue('basics.gone'); // the consumer is there when this is answered
  await channel.deleteQueue('basics.gone');
  await end;
  console.log('cancelled: watcher'); // amqplib tells the consumer's own callback and no tag
}

async function rpc(connection, channel) {
  const server = await connection.createChannel();
  await server.assertQueue('basics.rpc', { autoDelete: true });
  await server.consume('basics.rpc', ({ content: body, properties: { replyTo, correlationId } }) =>
    server.sendToQueue(replyTo, Buffer.from(String(2 * Number(body))), { correlationId }), { noAck: true });
  const answer = new Promise((resolve) => {
    channel.consume('amq.rabbitmq.reply-to', resolve, { noAck: true });
  });
  channel.sendToQueue('basics.rpc', Buffer.from('21'), { replyTo: 'amq.rabbitmq.reply-to', correlationId: '1' });
  const { content: body, properties } = await answer;
  console.log(properties.correlationId === '1' ? `rpc: ${body}` : `rpc: the answer is for ${properties.correlationId}`);
}

async function main() {
  const connection = await connect();
  const channel = await connection.createConfirmChannel();
  await publishing(channel);
  await consuming(connection, channel);
  await deadLetter(channel);
  await refusals(connection, channel);
  await channel.assertQueue('basics.ttl', { messageTtl: 50, ...deadLetters });
  channel.sendToQueue('basics.ttl', Buffer.from('late'));
  await deadLetter(channel);
  await content(channel);
  await cancelled(connection, channel);
  await rpc(connection, channel);
  await connection.close();
  console.log('closed');
}

main();
