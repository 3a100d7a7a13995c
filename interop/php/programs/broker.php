<?php
// Where the broker is: the one thing that a program is told from outside.
require 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;

function connect(?string $urls = null): AMQPStreamConnection
{
    $hosts = array_map(function (string $url): array {
        $parts = parse_url($url);
        return ['host' => $parts['host'], 'port' => $parts['port'], 'user' => $parts['user'], 'password' => $parts['pass'], 'vhost' => '/'];
    }, explode(',', $urls ?? getenv('AMQP_URL')));
    return AMQPStreamConnection::create_connection($hosts, ['connection_timeout' => 3.0, 'read_write_timeout' => 30.0]);
}

function say(string $line): void
{
    fwrite(STDOUT, $line . "\n");
}
