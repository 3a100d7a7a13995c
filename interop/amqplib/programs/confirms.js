// Tutorial 7: confirms.js. Publishes with confirms; an unroutable mandatory message is returned.
const { once } = require('node:events');
const { connect } = require('./broker');

async function main() {
  const connection = await connect();
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  for (let i = 0; i < 200; i++) channel.sendToQueue(queue, Buffer.from(String(i)), { persistent: true, mandatory: true });
  await channel.waitForConfirms();
  console.log(` [x] ${(await channel.checkQueue(queue)).messageCount} messages confirmed`);
  const returned = once(channel, 'return');
  channel.publish('', 'nowhere', Buffer.from('lost'), { mandatory: true });
  const [message] = await returned;
  console.log(` [x] returned ${message.content}: ${message.fields.replyCode} ${message.fields.replyText}`);
  const bodies = [];
  for (let i = 0; i < 200; i++) bodies.push((await channel.get(queue, { noAck: true })).content.toString());
  console.log(` [x] in order: ${bodies.every((body, i) => body === String(i)) ? 'True' : 'False'}`);
  await connection.close();
}

main();
