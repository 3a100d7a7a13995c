# failover.rb COUNT: publishes and consumes numbered messages while a node dies. bunny takes several addresses, reconnects and
# restores channels, queue and consumer by itself; what was not confirmed is published again by the application.
require "bunny"
require "uri"

$stdout.sync = true
count = Integer(ARGV[0])
recovering = false
addresses = ENV.fetch("AMQP_URLS").split(",").map { |url| URI(url) }.map { |url| "#{url.host}:#{url.port}" }
connection = Bunny.new(addresses: addresses, network_recovery_interval: 0.1, log_level: Logger::FATAL,
                       recovery_attempt_started: -> { recovering = true },
                       recovery_completed: lambda { $stdout.write("reconnected\n"); recovering = false }).start

all = Queue.new
worker = connection.create_channel
worker.prefetch(20)
received = {}
worker.queue("failover.q", durable: true).subscribe(manual_ack: true) do |info, _, body|
  $stdout.write("received #{body}#{info.redelivered? ? ' again' : ''}\n")
  received[body] = true
  all << true if received.size == count
  worker.ack(info.delivery_tag)
end

# Publishes the numbers and waits for their confirms, again until all have come on one connection. It keeps still while bunny
# reconnects: what is written then gets between the frames of bunny's login.
publish = lambda do |numbers|
  again = false
  loop do
    sleep 0.05 while recovering
    channel = connection.create_channel
    channel.confirm_select
    numbers.each do |n|
      $stdout.write("published #{n} again\n") if again
      channel.default_exchange.publish(n.to_s, routing_key: "failover.q", persistent: true, mandatory: true)
    end
    if channel.wait_for_confirms
      channel.close
      break
    end
    again = true
  rescue Bunny::Exception, Timeout::Error, SystemCallError, IOError, RuntimeError # the last while it has no connection
    again = true
    sleep 0.2
  end
end

(1..count).each_slice(50) do |numbers|
  publish.call(numbers)
  numbers.each { |n| $stdout.write("confirmed #{n}\n") }
end
all.pop
$stdout.write("done\n")
sleep
