// What amqp-connection-manager makes of amqplib, a line per step; the test says what each shows.
const { once } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const manager = require('amqp-connection-manager');
const { connect, urls } = require('./broker');

const json = (message) => JSON.parse(message.content);

// Resolves with what the step answers once it answers something.
async function until(step) {
  for (;;) {
    const answer = await step();
    if (answer) return answer;
    await sleep(20);
  }
}

let setups = 0;
async function topology(channel) {
  await channel.assertExchange('managed.x', 'topic', { durable: true });
  await channel.assertQueue('managed.dead', { durable: true });
  await channel.assertQueue('managed.q', { durable: true, deadLetterExchange: '', deadLetterRoutingKey: 'managed.dead' });
  await channel.bindQueue('managed.q', 'managed.x', 'a.#');
  setups++;
}

// Publishes before there is a connection: nothing is lost but what must not wait. The first address is nobody's.
async function before(connection, wrapper, open) {
  const early = [1, 2, 3].map((n) => wrapper.publish('managed.x', 'a.b', { n }, { persistent: true }));
  const late = wrapper.sendToQueue('managed.q', { n: 0 }, { timeout: 20 }).catch((error) => error.message);
  console.log(`before: ${wrapper.queueLength()} wait, connected: ${connection.isConnected()}`);
  console.log(`impatient: ${await late}`);
  const failed = once(connection, 'connectFailed');
  open(['amqp://127.0.0.1:1', ...urls]);
  const [{ err }] = await failed;
  await Promise.all(early);
  console.log(`connected: after ${err.code}, ${(await wrapper.checkQueue('managed.q')).messageCount} confirmed`);
}

async function consuming(wrapper, received) {
  const seen = [];
  let handle = (message) => {
    const { n } = json(message);
    seen.push(`${n}${message.fields.redelivered ? ' again' : ''}`);
    if (n === 2 && !message.fields.redelivered) wrapper.nack(message, false, true);
    else if (n === 3) wrapper.nack(message, false, false);
    else wrapper.ack(message);
  };
  const { consumerTag } = await wrapper.consume('managed.q', (message) => handle(message), { prefetch: 2 });
  await until(() => seen.length === 4);
  console.log(`consumed: ${seen.sort()}`);
  const dead = await until(() => wrapper.get('managed.dead', { noAck: true }));
  console.log(`dead: ${json(dead).n}, ${dead.properties.headers['x-death'][0].reason}`);
  handle = (message) => {
    received.add(json(message).n);
    wrapper.ack(message);
  };
  return consumerTag;
}

async function returned(wrapper) {
  const back = new Promise((resolve) => {
    wrapper.addSetup((channel) => channel.on('return', resolve));
  });
  await wrapper.publish('managed.x', 'zzz', {}, { mandatory: true });
  const { fields } = await back;
  console.log(`returned: ${fields.replyCode} ${fields.replyText} ${fields.routingKey}`);
}

// Setup functions that come and go while there is a connection.
async function more(connection, wrapper) {
  const add = (channel) => channel.assertQueue('managed.more');
  await wrapper.addSetup(add);
  const { messageCount } = await wrapper.checkQueue('managed.more');
  await wrapper.removeSetup(add, (channel) => channel.deleteQueue('managed.more'));
  const refused = (channel) => {
    channel.on('error', () => {}); // or it takes the connection with it
    return channel.checkQueue('managed.more');
  };
  const other = connection.createChannel({ setup: refused });
  const [error] = await once(other, 'error');
  console.log(`setup: added with ${messageCount}, removed, then ${error.code}`);
  await other.close();
}

// A connection that is lost comes back with its setups and consumers; what is published meanwhile waits.
async function again(connection, wrapper, received) {
  const lost = once(connection, 'disconnect');
  connection.reconnect();
  await lost;
  await wrapper.publish('managed.x', 'a.c', { n: 4 });
  await until(() => received.size === 1);
  console.log(`reconnected: setups ${setups}, received ${[...received]}`);
}

// So does one whose socket goes without a word.
async function cut(connection, wrapper, received) {
  const lost = once(connection, 'disconnect');
  connection.connection.connection.stream.destroy(new Error('cut'));
  await lost;
  await wrapper.sendToQueue('managed.q', { n: 5 });
  await until(() => received.size === 2);
  console.log(`cut: setups ${setups}, received ${[...received]}`);
}

async function main() {
  const plain = await connect();
  const channel = await plain.createChannel();
  for (const queue of ['managed.q', 'managed.dead', 'managed.more']) await channel.deleteQueue(queue);
  let open;
  const servers = new Promise((resolve) => {
    open = resolve;
  });
  const connection = manager.connect(null, { findServers: () => servers, reconnectTimeInSeconds: 0.05 });
  const wrapper = connection.createChannel({ name: 'managed', json: true, setup: topology });
  const received = new Set(); // one that is acked just before the cut comes again
  await before(connection, wrapper, open);
  const tag = await consuming(wrapper, received);
  await returned(wrapper);
  await more(connection, wrapper);
  await again(connection, wrapper, received);
  await cut(connection, wrapper, received);
  const consumers = async () => (await channel.checkQueue('managed.q')).consumerCount;
  const had = await consumers();
  await wrapper.cancel(tag);
  console.log(`cancelled: ${had} consumer, then ${await consumers()}`);
  const unconfirmed = connection.createChannel({ confirm: false });
  await unconfirmed.sendToQueue('managed.q', Buffer.from('{"n":6}'));
  console.log(`without confirms: ${json(await until(() => wrapper.get('managed.q', { noAck: true }))).n}`);
  await connection.close();
  console.log(`closed: connected ${connection.isConnected()}, ${connection.channelCount} channels`);
  await plain.close();
}

main();
