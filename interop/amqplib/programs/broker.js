// Where the broker is: the one thing that a program is told from outside.
const amqp = require('amqplib');

const url = process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672/';

exports.connect = () => amqp.connect(url);
exports.urls = (process.env.AMQP_URLS || url).split(',');
