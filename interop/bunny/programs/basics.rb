# One conversation through every part of the protocol; the package programs says what each line shows.
require "bunny"

$stdout.sync = true
DEAD_LETTERS = { "x-dead-letter-exchange" => "", "x-dead-letter-routing-key" => "basics.dead" }.freeze

def connect
  Bunny.new(ENV.fetch("AMQP_URL").sub(%r{/\z}, ""), log_level: Logger::FATAL).start
end

# The next message of the queue, which may be about to come.
def get(channel, queue)
  loop do
    _, properties, body = message = channel.basic_get(queue, manual_ack: false)
    return message if properties && body
    sleep 0.02
  end
end

# The code with which the broker closes the channel of the step.
def refused(connection)
  yield connection.create_channel
  "not refused"
rescue Bunny::ChannelLevelException => e
  e.channel_close.reply_code
end

def waiting(channel)
  channel.queue_declare("basics.q", passive: true).message_count
end

def publish(channel)
  %w[basics.dead basics.q basics.ttl].each { |name| channel.queue_delete(name) }
  exchange = channel.topic("basics.x", durable: true)
  channel.queue("basics.dead", durable: true)
  queue = channel.queue("basics.q", durable: true, arguments: DEAD_LETTERS).bind(exchange, routing_key: "a.#")
  puts "declared: #{queue.message_count} messages, #{queue.consumer_count} consumers"
  channel.confirm_select
  (1..100).each { |i| exchange.publish(i.to_s, routing_key: "a.b", persistent: true, mandatory: true) }
  puts "confirmed: #{channel.wait_for_confirms ? 100 : 100 - channel.nacked_set.size} of 100"
  puts "waiting: #{waiting(channel)}"
  exchange
end

def consume(connection, channel)
  worker = connection.create_channel
  worker.prefetch(10)
  deliveries = Queue.new
  worker.queue("basics.q", passive: true).subscribe(manual_ack: true) { |info, _, body| deliveries << [info, body] }
  held = Array.new(10) { deliveries.pop }
  puts "prefetch 10: #{held.size + deliveries.size} in hand, #{waiting(channel)} waiting"
  worker.ack(held[7][0].delivery_tag, true)
  worker.nack(held[8][0].delivery_tag, false, true)
  worker.reject(held[9][0].delivery_tag, false)
  while held.size < 10 + 90 + 1
    held << deliveries.pop
    worker.ack(held.last[0].delivery_tag)
  end
  again = held.select { |info, _| info.redelivered? }.map(&:last)
  puts "drained: #{held.map(&:last).uniq.size} distinct, again: #{again.join(',')}"
  worker.close
end

def dead_letter(channel)
  _, properties, body = get(channel, "basics.dead")
  death = properties[:headers]["x-death"][0]
  puts "dead: #{body}, #{death['reason']} from #{death['queue']}"
end

def refusals(connection, channel, exchange)
  returned = Queue.new
  exchange.on_return { |info, _, _| returned << info }
  exchange.publish("lost", routing_key: "zzz", mandatory: true)
  info = returned.pop
  puts "returned: #{info.reply_code} #{info.reply_text} #{info.routing_key}"
  channel.queue("basics.mine", exclusive: true)
  other = connect
  puts "exclusive: #{refused(other) { |ch| ch.queue_declare('basics.mine', passive: true) }}"
  other.close
  puts "inequivalent: #{refused(connection) { |ch| ch.queue_declare('basics.q', durable: true) }}"
  puts "missing: #{refused(connection) { |ch| ch.queue_declare('basics.none', passive: true) }}"
end

def content(channel)
  moment = Time.at(1_700_000_000)
  headers = { "s" => "text", "i" => -7, "l" => 1 << 40, "b" => true, "d" => 1.5, "t" => moment, "n" => { "k" => "v" }, "a" => [1, "two"], "v" => nil }
  channel.default_exchange.publish(
    "", routing_key: "basics.q", headers: headers, content_type: "text/plain", content_encoding: "utf-8", persistent: true, priority: 5,
    correlation_id: "corr", reply_to: "reply", expiration: "60000", message_id: "msg", timestamp: 1_700_000_000, type: "kind", user_id: "guest", app_id: "app"
  )
  _, properties, = get(channel, "basics.q")
  h = properties[:headers]
  puts "headers: s=#{h['s']} i=#{h['i']} l=#{h['l']} b=#{h['b']} d=#{h['d']} t=#{h['t'].to_i} n=k:#{h['n']['k']} a=#{h['a'].join(',')} v=#{h['v'].nil? ? 'null' : h['v']}"
  names = %i[content_type content_encoding delivery_mode priority correlation_id reply_to expiration message_id timestamp type user_id app_id]
  puts "properties: #{names.map { |name| properties[name].is_a?(Time) ? properties[name].to_i : properties[name] }.join(' ')}"
  large = (0..255).to_a.pack("C*") * (5 << 12)
  channel.default_exchange.publish(large, routing_key: "basics.q")
  _, _, body = get(channel, "basics.q")
  puts "large: #{body.bytesize} bytes, #{body.b == large ? 'the same' : 'changed'}"
end

def cancel(connection, channel)
  watcher = connection.create_channel
  cancelled = Queue.new
  consumer = Bunny::Consumer.new(watcher, watcher.queue("basics.gone"), "watcher")
  consumer.on_cancellation { |method| cancelled << method.consumer_tag }
  watcher.basic_consume_with(consumer)
  channel.queue_delete("basics.gone")
  puts "cancelled: #{cancelled.pop}"
end

def rpc(connection, channel)
  server = connection.create_channel
  server.queue("basics.rpc", auto_delete: true).subscribe do |_, properties, body|
    server.default_exchange.publish((2 * body.to_i).to_s, routing_key: properties.reply_to, correlation_id: properties.correlation_id)
  end
  answers = Queue.new
  channel.queue("amq.rabbitmq.reply-to", no_declare: true).subscribe { |_, properties, body| answers << [properties.correlation_id, body] }
  channel.default_exchange.publish("21", routing_key: "basics.rpc", reply_to: "amq.rabbitmq.reply-to", correlation_id: "1")
  id, body = answers.pop
  puts(id == "1" ? "rpc: #{body}" : "rpc: the answer is for #{id}")
end

connection = connect
channel = connection.create_channel
exchange = publish(channel)
consume(connection, channel)
dead_letter(channel)
refusals(connection, channel, exchange)
channel.queue("basics.ttl", arguments: DEAD_LETTERS.merge("x-message-ttl" => 50))
channel.default_exchange.publish("late", routing_key: "basics.ttl")
dead_letter(channel)
content(channel)
cancel(connection, channel)
rpc(connection, channel)
connection.close
puts "closed"
