<?php
// failover.php COUNT: publishes and consumes numbered messages while a node dies. create_connection tries the addresses in
// turn; what to do about a connection that is lost the library leaves to the application.
require __DIR__ . '/broker.php';

use PhpAmqpLib\Exception\AMQPExceptionInterface;
use PhpAmqpLib\Exception\AMQPTimeoutException;
use PhpAmqpLib\Message\AMQPMessage;

$count = (int) $argv[1];
$published = $confirmed = $received = [];
$told = false;

/** Publishes what is not confirmed, ten at a time, and consumes meanwhile and later. */
function work($channel): void
{
    global $count, $published, $confirmed, $told;
    $channel->queue_declare('failover.q', false, true, false, false);
    $channel->set_ack_handler(function (AMQPMessage $m) use (&$confirmed) {
        $confirmed[(int) $m->body] = true;
        say("confirmed {$m->body}");
    });
    $channel->confirm_select();
    $channel->basic_qos(0, 20, false);
    $channel->basic_consume('failover.q', '', false, false, false, false, 'take');
    for ($n = 1; $n <= $count; $n++) {
        if (!isset($confirmed[$n])) {
            if (isset($published[$n])) {
                say("published $n again");
            }
            $published[$n] = true;
            $channel->basic_publish(new AMQPMessage((string) $n, ['delivery_mode' => 2]), '', 'failover.q', true);
        }
        if ($n % 10 === 0) {
            $channel->wait_for_pending_acks_returns(30);
        }
    }
    $channel->wait_for_pending_acks_returns(30);
    while (true) {
        tellWhenDone();
        try {
            $channel->wait(null, false, 1);
        } catch (AMQPTimeoutException $e) {
            continue;
        }
    }
}

function take(AMQPMessage $m): void
{
    global $received;
    say("received {$m->body}" . ($m->isRedelivered() ? ' again' : ''));
    $received[(int) $m->body] = true;
    $m->ack();
}

function tellWhenDone(): void
{
    global $count, $confirmed, $received, $told;
    if (!$told && count($confirmed) === $count && count($received) === $count) {
        $told = true;
        say('done');
    }
}

for ($connections = 0; ; ) {
    try {
        $connection = connect(getenv('AMQP_URLS'));
        if ($connections++ > 0) {
            say('reconnected');
        }
        work($connection->channel());
    } catch (AMQPExceptionInterface $e) {
        usleep(50000);
    }
}
