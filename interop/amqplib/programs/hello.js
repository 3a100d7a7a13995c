// Tutorial 1: hello.js send | receive.
const { connect } = require('./broker');

async function send() {
  const connection = await connect();
  const channel = await connection.createChannel();
  await channel.assertQueue('hello', { durable: false });
  channel.sendToQueue('hello', Buffer.from('Hello World!'));
  console.log(" [x] Sent 'Hello World!'");
  await channel.close();
  await connection.close();
}

async function receive() {
  const channel = await (await connect()).createChannel();
  await channel.assertQueue('hello', { durable: false });
  console.log(' [*] Waiting for messages');
  await channel.consume('hello', (message) => console.log(` [x] Received ${message.content}`), { noAck: true });
}

({ send, receive })[process.argv[2]]();
