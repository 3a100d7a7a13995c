<?php
// One conversation through every part of the protocol; the package programs says what each line shows.
require __DIR__ . '/broker.php';

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Exception\AMQPBasicCancelException;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPArray;
use PhpAmqpLib\Wire\AMQPTable;

const DEAD_LETTERS = ['x-dead-letter-exchange' => '', 'x-dead-letter-routing-key' => 'basics.dead'];

/** The next message of the queue, which may be about to come. */
function get(AMQPChannel $channel, string $queue): AMQPMessage
{
    while (($message = $channel->basic_get($queue, true)) === null) {
        usleep(20000);
    }
    return $message;
}

/** The code with which the broker closes the channel of the step. */
function refused($connection, callable $step)
{
    try {
        $step($connection->channel());
    } catch (AMQPProtocolChannelException $e) {
        return $e->amqp_reply_code;
    }
    return 'not refused';
}

function waiting(AMQPChannel $channel): int
{
    return $channel->queue_declare('basics.q', true)[1];
}

function publishing(AMQPChannel $channel): void
{
    foreach (['basics.dead', 'basics.q', 'basics.ttl'] as $queue) {
        $channel->queue_delete($queue);
    }
    $channel->exchange_declare('basics.x', 'topic', false, true, false);
    $channel->queue_declare('basics.dead', false, true, false, false);
    [, $messages, $consumers] = $channel->queue_declare('basics.q', false, true, false, false, false, new AMQPTable(DEAD_LETTERS));
    $channel->queue_bind('basics.q', 'basics.x', 'a.#');
    say("declared: $messages messages, $consumers consumers");
    $confirmed = 0;
    $channel->set_ack_handler(function () use (&$confirmed) { $confirmed++; });
    $channel->confirm_select();
    for ($i = 1; $i <= 100; $i++) {
        $channel->basic_publish(new AMQPMessage((string) $i, ['delivery_mode' => 2]), 'basics.x', 'a.b', true);
    }
    $channel->wait_for_pending_acks_returns(30);
    say("confirmed: $confirmed of 100");
    say('waiting: ' . waiting($channel));
}

function consuming($connection, AMQPChannel $channel): void
{
    $worker = $connection->channel();
    $worker->basic_qos(0, 10, false);
    $held = [];
    $acking = false;
    $worker->basic_consume('basics.q', '', false, false, false, false, function (AMQPMessage $m) use (&$held, &$acking) {
        $held[] = $m;
        if ($acking) {
            $m->ack();
        }
    });
    while (count($held) < 10) {
        $worker->wait(null, false, 30);
    }
    say('prefetch 10: ' . count($held) . ' in hand, ' . waiting($channel) . ' waiting');
    $acking = true;
    $held[7]->ack(true);
    $held[8]->nack(true);
    $held[9]->reject(false);
    while (count($held) < 10 + 90 + 1) {
        $worker->wait(null, false, 30);
    }
    $again = array_filter($held, fn ($m) => $m->isRedelivered());
    $bodies = fn (array $messages) => array_unique(array_map(fn ($m) => $m->body, $messages));
    say('drained: ' . count($bodies($held)) . ' distinct, again: ' . implode(',', $bodies($again)));
    $worker->close();
}

function deadLetter(AMQPChannel $channel): void
{
    $message = get($channel, 'basics.dead');
    $death = $message->get('application_headers')->getNativeData()['x-death'][0];
    say("dead: {$message->body}, {$death['reason']} from {$death['queue']}");
}

function refusals($connection, AMQPChannel $channel): void
{
    $channel->set_return_listener(fn ($code, $text, $exchange, $key) => say("returned: $code $text $key"));
    $channel->basic_publish(new AMQPMessage('lost'), 'basics.x', 'zzz', true);
    $channel->wait_for_pending_acks_returns(30);
    $channel->queue_declare('basics.mine', false, false, true, false);
    $other = connect();
    say('exclusive: ' . refused($other, fn ($ch) => $ch->queue_declare('basics.mine', true)));
    $other->close();
    say('inequivalent: ' . refused($connection, fn ($ch) => $ch->queue_declare('basics.q', false, true, false, false)));
    say('missing: ' . refused($connection, fn ($ch) => $ch->queue_declare('basics.none', true)));
}

function content(AMQPChannel $channel): void
{
    $headers = new AMQPTable(['s' => 'text', 'i' => -7, 'l' => 1 << 40, 'b' => true, 'd' => 1.5, 'n' => ['k' => 'v'], 'a' => [1, 'two'], 'v' => null]);
    $headers->set('t', (new DateTime())->setTimestamp(1700000000));
    $headers->set('x', "\x00\xff", AMQPTable::T_BYTES);
    $channel->basic_publish(new AMQPMessage('', [
        'content_type' => 'text/plain', 'content_encoding' => 'utf-8', 'application_headers' => $headers, 'delivery_mode' => 2, 'priority' => 5,
        'correlation_id' => 'corr', 'reply_to' => 'reply', 'expiration' => '60000', 'message_id' => 'msg', 'timestamp' => 1700000000,
        'type' => 'kind', 'user_id' => 'guest', 'app_id' => 'app',
    ]), '', 'basics.q');
    $p = get($channel, 'basics.q');
    $h = $p->get('application_headers')->getNativeData();
    say("headers: s={$h['s']} i={$h['i']} l={$h['l']} b=" . var_export($h['b'], true) . ' d=' . (float) $h['d'] . " t={$h['t']->getTimestamp()} x="
        . bin2hex($h['x']) . " n=k:{$h['n']['k']} a=" . implode(',', $h['a']) . ' v=' . ($h['v'] ?? 'null'));
    $names = ['content_type', 'content_encoding', 'delivery_mode', 'priority', 'correlation_id', 'reply_to', 'expiration', 'message_id', 'timestamp',
        'type', 'user_id', 'app_id'];
    say('properties: ' . implode(' ', array_map([$p, 'get'], $names)));
    $large = str_repeat(implode('', array_map('chr', range(0, 255))), 5 << 12);
    $channel->basic_publish(new AMQPMessage($large), '', 'basics.q');
    $body = get($channel, 'basics.q')->body;
    say('large: ' . strlen($body) . ' bytes, ' . ($body === $large ? 'the same' : 'changed'));
}

function cancelled($connection, AMQPChannel $channel): void
{
    $watcher = $connection->channel();
    $watcher->queue_declare('basics.gone', false, false, false, false);
    $watcher->basic_consume('basics.gone', 'watcher', false, true, false, false, fn () => null);
    $channel->queue_delete('basics.gone');
    try {
        while (true) {
            $watcher->wait(null, false, 30);
        }
    } catch (AMQPBasicCancelException $e) {
        say("cancelled: {$e->consumerTag}");
    }
}

function rpc($connection, AMQPChannel $channel): void
{
    $server = $connection->channel();
    $server->queue_declare('basics.rpc', false, false, false, true);
    $server->basic_consume('basics.rpc', '', false, true, false, false, function (AMQPMessage $m) use ($server) {
        $reply = new AMQPMessage((string) (2 * (int) $m->body), ['correlation_id' => $m->get('correlation_id')]);
        $server->basic_publish($reply, '', $m->get('reply_to'));
    });
    $answer = null;
    $channel->basic_consume('amq.rabbitmq.reply-to', '', false, true, false, false, function (AMQPMessage $m) use (&$answer) { $answer = $m; });
    $channel->basic_publish(new AMQPMessage('21', ['reply_to' => 'amq.rabbitmq.reply-to', 'correlation_id' => '1']), '', 'basics.rpc');
    $server->wait(null, false, 30);
    while ($answer === null) {
        $channel->wait(null, false, 30);
    }
    say('rpc: ' . ($answer->get('correlation_id') === '1' ? $answer->body : 'the answer to something else'));
}

$connection = connect();
$channel = $connection->channel();
publishing($channel);
consuming($connection, $channel);
deadLetter($channel);
refusals($connection, $channel);
$channel->queue_declare('basics.ttl', false, false, false, false, false, new AMQPTable(DEAD_LETTERS + ['x-message-ttl' => 50]));
$channel->basic_publish(new AMQPMessage('late'), '', 'basics.ttl');
deadLetter($channel);
content($channel);
cancelled($connection, $channel);
rpc($connection, $channel);
$connection->close();
say('closed');
