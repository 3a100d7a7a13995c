import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;

/** One conversation through every part of the protocol; the package programs says what each line shows. */
final class Basics {
    private static final Map<String, Object> DEAD_LETTERS = Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", "basics.dead");

    private final Connection connection;
    private final Channel channel;

    private Basics(Connection connection) throws IOException {
        this.connection = connection;
        this.channel = connection.createChannel();
    }

    public static void main(String[] args) throws Exception {
        var basics = new Basics(Broker.connect());
        basics.publish();
        basics.consume();
        basics.deadLetter();
        basics.refusals();
        basics.expiry();
        basics.deadLetter();
        basics.properties();
        basics.large();
        basics.cancel();
        basics.rpc();
        basics.connection.close();
        System.out.println("closed");
    }

    private void publish() throws Exception {
        for (String queue : List.of("basics.dead", "basics.q", "basics.ttl")) {
            channel.queueDelete(queue);
        }
        channel.exchangeDeclare("basics.x", "topic", true);
        channel.queueDeclare("basics.dead", true, false, false, Map.of());
        var declared = channel.queueDeclare("basics.q", true, false, false, DEAD_LETTERS);
        channel.queueBind("basics.q", "basics.x", "a.#");
        System.out.println("declared: " + declared.getMessageCount() + " messages, " + declared.getConsumerCount() + " consumers");
        channel.confirmSelect();
        for (int i = 1; i <= 100; i++) {
            channel.basicPublish("basics.x", "a.b", true, MessageProperties.MINIMAL_PERSISTENT_BASIC, Broker.bytes(i));
        }
        channel.waitForConfirmsOrDie(30_000);
        System.out.println("confirmed: 100 of 100");
        System.out.println("waiting: " + channel.messageCount("basics.q"));
    }

    private void consume() throws Exception {
        var worker = connection.createChannel();
        worker.basicQos(10);
        BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
        worker.basicConsume("basics.q", false, (tag, delivery) -> deliveries.add(delivery), tag -> {});
        List<Delivery> held = new ArrayList<>();
        while (held.size() < 10) {
            held.add(deliveries.take());
        }
        System.out.println("prefetch 10: " + (held.size() + deliveries.size()) + " in hand, " + channel.messageCount("basics.q") + " waiting");
        worker.basicAck(held.get(7).getEnvelope().getDeliveryTag(), true);
        worker.basicNack(held.get(8).getEnvelope().getDeliveryTag(), false, true);
        worker.basicReject(held.get(9).getEnvelope().getDeliveryTag(), false);
        while (held.size() < 10 + 90 + 1) {
            var delivery = deliveries.take();
            held.add(delivery);
            worker.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        }
        var again = held.stream().filter(d -> d.getEnvelope().isRedeliver()).map(d -> Broker.text(d.getBody())).collect(Collectors.joining(","));
        long distinct = held.stream().map(d -> Broker.text(d.getBody())).distinct().count();
        System.out.println("drained: " + distinct + " distinct, again: " + again);
        worker.close();
    }

    private void deadLetter() throws Exception {
        var message = get("basics.dead");
        var death = (Map<?, ?>) ((List<?>) message.getProps().getHeaders().get("x-death")).get(0);
        System.out.println("dead: " + Broker.text(message.getBody()) + ", " + death.get("reason") + " from " + death.get("queue"));
    }

    private void refusals() throws Exception {
        var returned = new CompletableFuture<String>();
        channel.addReturnListener(r -> returned.complete(r.getReplyCode() + " " + r.getReplyText() + " " + r.getRoutingKey()));
        channel.basicPublish("basics.x", "zzz", true, null, Broker.bytes("lost"));
        System.out.println("returned: " + returned.get());
        channel.queueDeclare("basics.mine", false, true, false, Map.of());
        try (var other = Broker.connect()) {
            System.out.println("exclusive: " + refused(other, ch -> ch.queueDeclarePassive("basics.mine")));
        }
        System.out.println("inequivalent: " + refused(connection, ch -> ch.queueDeclare("basics.q", true, false, false, Map.of())));
        System.out.println("missing: " + refused(connection, ch -> ch.queueDeclarePassive("basics.none")));
    }

    private void expiry() throws Exception {
        Map<String, Object> arguments = new HashMap<>(DEAD_LETTERS);
        arguments.put("x-message-ttl", 50);
        channel.queueDeclare("basics.ttl", false, false, false, arguments);
        channel.basicPublish("", "basics.ttl", null, Broker.bytes("late"));
    }

    private void properties() throws Exception {
        Map<String, Object> headers = new HashMap<>();
        headers.put("s", "text");
        headers.put("i", -7);
        headers.put("l", 1L << 40);
        headers.put("b", true);
        headers.put("d", 1.5);
        headers.put("t", new Date(1_700_000_000_000L));
        headers.put("x", new byte[] {0, -1});
        headers.put("n", Map.of("k", "v"));
        headers.put("a", List.of(1, "two"));
        headers.put("v", null);
        channel.basicPublish("", "basics.q", new BasicProperties("text/plain", "utf-8", headers, 2, 5, "corr", "reply", "60000", "msg",
            new Date(1_700_000_000_000L), "kind", "guest", "app", null), new byte[0]);
        var p = get("basics.q").getProps();
        var h = p.getHeaders();
        var list = ((List<?>) h.get("a")).stream().map(Object::toString).collect(Collectors.joining(","));
        System.out.println("headers: s=" + h.get("s") + " i=" + h.get("i") + " l=" + h.get("l") + " b=" + h.get("b") + " d=" + h.get("d")
            + " t=" + seconds((Date) h.get("t")) + " x=" + HexFormat.of().formatHex((byte[]) h.get("x")) + " n=k:" + ((Map<?, ?>) h.get("n")).get("k")
            + " a=" + list + " v=" + h.get("v"));
        System.out.println(String.join(" ", "properties:", p.getContentType(), p.getContentEncoding(), p.getDeliveryMode().toString(),
            p.getPriority().toString(), p.getCorrelationId(), p.getReplyTo(), p.getExpiration(), p.getMessageId(),
            Long.toString(seconds(p.getTimestamp())), p.getType(), p.getUserId(), p.getAppId()));
    }

    private void large() throws Exception {
        var large = new byte[5 << 20];
        for (int i = 0; i < large.length; i++) {
            large[i] = (byte) i;
        }
        channel.basicPublish("", "basics.q", null, large);
        var body = get("basics.q").getBody();
        System.out.println("large: " + body.length + " bytes, " + (Arrays.equals(body, large) ? "the same" : "changed"));
    }

    private void cancel() throws Exception {
        var watcher = connection.createChannel();
        watcher.queueDeclare("basics.gone", false, false, false, Map.of());
        var cancelled = new CompletableFuture<String>();
        watcher.basicConsume("basics.gone", true, "watcher", (tag, delivery) -> {}, cancelled::complete);
        channel.queueDelete("basics.gone");
        System.out.println("cancelled: " + cancelled.get());
    }

    private void rpc() throws Exception {
        var server = connection.createChannel();
        server.queueDeclare("basics.rpc", false, false, true, Map.of());
        server.basicConsume("basics.rpc", true, (tag, request) -> {
            var properties = new BasicProperties.Builder().correlationId(request.getProperties().getCorrelationId()).build();
            server.basicPublish("", request.getProperties().getReplyTo(), properties, Broker.bytes(2 * Integer.parseInt(Broker.text(request.getBody()))));
        }, tag -> {});
        var answer = new CompletableFuture<String>();
        channel.basicConsume("amq.rabbitmq.reply-to", true, (tag, delivery) -> {
            if ("1".equals(delivery.getProperties().getCorrelationId())) {
                answer.complete(Broker.text(delivery.getBody()));
            }
        }, tag -> {});
        channel.basicPublish("", "basics.rpc", new BasicProperties.Builder().replyTo("amq.rabbitmq.reply-to").correlationId("1").build(), Broker.bytes(21));
        System.out.println("rpc: " + answer.get());
    }

    /** The next message of the queue, which may be about to come. */
    private GetResponse get(String queue) throws Exception {
        for (;;) {
            var message = channel.basicGet(queue, true);
            if (message != null) {
                return message;
            }
            Thread.sleep(20);
        }
    }

    private interface Step {
        void run(Channel channel) throws IOException;
    }

    /** The code with which the broker closes the channel of the step. */
    private static String refused(Connection connection, Step step) throws Exception {
        var own = connection.createChannel();
        try {
            step.run(own);
        } catch (IOException | AlreadyClosedException e) {
            var reason = e instanceof ShutdownSignalException s ? s : (ShutdownSignalException) e.getCause();
            return Integer.toString(((AMQP.Channel.Close) reason.getReason()).getReplyCode());
        }
        return "not refused";
    }

    private static long seconds(Date date) {
        return date.getTime() / 1000;
    }
}
