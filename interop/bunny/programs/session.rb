# session.rb: works in the session of AMQP_SESSION, through two failovers, with bunny's automatic recovery; the package programs
# says what each line shows. Nothing but the client property knows of sessions.
require "bunny"
require "uri"

$stdout.sync = true
recoveries = Queue.new
arrivals = Queue.new
addresses = ENV.fetch("AMQP_URLS").split(",").map { |url| URI(url) }.map { |url| "#{url.host}:#{url.port}" }
connection = Bunny.new(addresses: addresses, network_recovery_interval: 0.1, log_level: Logger::FATAL,
                       recovery_attempt_started: -> { arrivals.clear }, recovery_completed: -> { recoveries << true },
                       properties: Bunny::Session::DEFAULT_CLIENT_PROPERTIES.merge("x-session-id" => ENV.fetch("AMQP_SESSION"))).start

# Each time on a channel of its own: bunny 2 miscounts confirms of several messages on a channel that it has recovered.
publish = lambda do
  channel = connection.create_channel
  channel.confirm_select
  (1..100).each do |n|
    channel.default_exchange.publish(n.to_s, routing_key: "session.q", persistent: true, mandatory: true, headers: { "x-dedup-id" => "message-#{n}" })
  end
  $stdout.write("published\n") if channel.wait_for_confirms
  channel.close
end

channel = connection.create_channel
own = channel.queue("session.own", exclusive: true)
channel.default_exchange.publish("mine", routing_key: "session.own")
worker = connection.create_channel
[channel, worker].each { |ch| ch.on_error { |_, method| $stdout.write("channel closed: #{method.reply_text}\n") } }
worker.prefetch(100)
queue = worker.queue("session.q", durable: true)
publish.call
queue.subscribe(manual_ack: true) do |info, _, body|
  $stdout.write("held #{body} #{info.delivery_tag.to_i}#{info.redelivered? ? ' again' : ''}\n")
  arrivals << info.delivery_tag
end
2.times do
  recoveries.pop
  $stdout.write("own #{own.message_count}\n")
  publish.call
end
100.times { worker.ack(arrivals.pop) }
$stdout.write("settled\n")
sleep
