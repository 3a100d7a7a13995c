// Tutorial 2: work.js task TEXT... | worker [die]. A dot in a task is a tenth of a second of work; a worker told to die
// does so with its first task in hand.
const { connect } = require('./broker');

async function task(...texts) {
  const connection = await connect();
  const channel = await connection.createChannel();
  await channel.assertQueue('task_queue', { durable: true });
  for (const text of texts) {
    channel.sendToQueue('task_queue', Buffer.from(text), { persistent: true });
    console.log(` [x] Sent ${text}`);
  }
  await channel.close();
  await connection.close();
}

async function worker(how) {
  const channel = await (await connect()).createChannel();
  await channel.assertQueue('task_queue', { durable: true });
  await channel.prefetch(1);
  console.log(' [*] Waiting for messages');
  await channel.consume('task_queue', (message) => {
    const text = message.content.toString();
    console.log(` [x] Received ${text}${message.fields.redelivered ? ' again' : ''}`);
    if (how) process.exit(1);
    setTimeout(() => {
      console.log(` [x] Done ${text}`);
      channel.ack(message);
    }, 100 * (text.split('.').length - 1));
  });
}

({ task, worker })[process.argv[2]](...process.argv.slice(3));
