<?php
// session.php: works in the session of AMQP_SESSION, through two failovers; the package programs says what each line shows. The
// library lets its user set a connection's name and no other property: the session is that name's suffix.
require __DIR__ . '/broker.php';

use PhpAmqpLib\Connection\AMQPConnectionConfig;
use PhpAmqpLib\Connection\AMQPConnectionFactory;
use PhpAmqpLib\Exception\AMQPExceptionInterface;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

function attach(string $url)
{
    $parts = parse_url($url);
    $config = new AMQPConnectionConfig();
    $config->setHost($parts['host']);
    $config->setPort($parts['port']);
    $config->setUser($parts['user']);
    $config->setPassword($parts['pass']);
    $config->setConnectionName('worker;session=' . getenv('AMQP_SESSION'));
    return AMQPConnectionFactory::create($config);
}

function work($connection, int $connections): void
{
    $channel = $connection->channel();
    [, $messages] = $channel->queue_declare('session.own', false, false, true, false);
    $channel->queue_declare('session.q', false, true, false, false);
    $channel->confirm_select();
    if ($connections === 1) {
        $channel->basic_publish(new AMQPMessage('mine'), '', 'session.own');
    } else {
        say("own $messages");
    }
    for ($n = 1; $n <= 100; $n++) {
        $headers = new AMQPTable(['x-dedup-id' => "message-$n"]);
        $channel->basic_publish(new AMQPMessage((string) $n, ['delivery_mode' => 2, 'application_headers' => $headers]), '', 'session.q', true);
    }
    $channel->wait_for_pending_acks_returns(30);
    say('published');
    consume($connection->channel(), $connections);
}

function consume($channel, int $connections): void
{
    $held = [];
    $channel->basic_qos(0, 100, false);
    $channel->basic_consume('session.q', '', false, false, false, false, function (AMQPMessage $m) use (&$held, $connections) {
        say("held {$m->body} {$m->getDeliveryTag()}" . ($m->isRedelivered() ? ' again' : ''));
        $held[] = $m;
        if (count($held) < 100 || $connections < 3) {
            return;
        }
        foreach ($held as $m) {
            $m->ack();
        }
        say('settled');
    });
    while (true) {
        $channel->wait();
    }
}

for ($tries = 0, $connections = 0; ; $tries++) {
    try {
        $urls = explode(',', getenv('AMQP_URLS'));
        $connection = attach($urls[$tries % count($urls)]);
        work($connection, ++$connections);
    } catch (AMQPProtocolChannelException $e) {
        say("channel closed: {$e->getMessage()}");
    } catch (AMQPExceptionInterface $e) {
        usleep(50000);
    }
}
