import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.rabbit.connection.AbstractConnectionFactory.AddressShuffleMode;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory.ConfirmType;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;

/**
 * SpringFailover COUNT: the same with Spring AMQP. The listener container restarts its consumers by itself; the template's
 * correlated confirms say what must be published again.
 */
final class SpringFailover {
    private static final int BATCH = 10;
    private final CachingConnectionFactory factory = new CachingConnectionFactory();
    private final AtomicInteger connections = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        new SpringFailover().run(Integer.parseInt(args[0]));
    }

    private void run(int count) throws Exception {
        var hosts = Broker.addresses().stream().map(Object::toString).toList();
        factory.setAddresses(String.join(",", hosts));
        factory.setAddressShuffleMode(AddressShuffleMode.NONE);
        factory.setPublisherConfirmType(ConfirmType.CORRELATED);
        factory.addConnectionListener(connection -> {
            if (connections.incrementAndGet() > 1) {
                System.out.println("reconnected");
            }
        });
        new RabbitAdmin(factory).declareQueue(new Queue("failover.q"));
        var all = new CountDownLatch(count);
        listen(all);
        var template = new RabbitTemplate(factory);
        for (int first = 1; first <= count; first += BATCH) {
            publish(template, IntStream.range(first, Math.min(count + 1, first + BATCH)).boxed().toList());
        }
        all.await();
        System.out.println("done");
    }

    private void listen(CountDownLatch all) {
        Set<String> received = ConcurrentHashMap.newKeySet();
        var container = new SimpleMessageListenerContainer(factory);
        container.setQueueNames("failover.q");
        container.setPrefetchCount(20);
        container.setRecoveryInterval(100);
        container.setMessageListener((Message message) -> {
            String n = Broker.text(message.getBody());
            System.out.println("received " + n + (message.getMessageProperties().getRedelivered() ? " again" : ""));
            if (received.add(n)) {
                all.countDown();
            }
        });
        container.afterPropertiesSet();
        container.start();
    }

    /** Publishes the numbers, and those again that are not confirmed, until all are. */
    private static void publish(RabbitTemplate template, List<Integer> numbers) throws InterruptedException {
        Map<Integer, CorrelationData> open = new TreeMap<>();
        for (int n : numbers) {
            open.put(n, send(template, n));
        }
        while (!open.isEmpty()) {
            for (int n : List.copyOf(open.keySet())) {
                if (acked(open.get(n))) {
                    System.out.println("confirmed " + n);
                    open.remove(n);
                } else {
                    System.out.println("published " + n + " again");
                    open.put(n, send(template, n));
                }
            }
        }
    }

    private static CorrelationData send(RabbitTemplate template, int n) throws InterruptedException {
        var confirm = new CorrelationData();
        try {
            template.convertAndSend("", "failover.q", Integer.toString(n), confirm);
        } catch (AmqpException e) {
            confirm.getFuture().completeExceptionally(e);
            Thread.sleep(50); // until it finds a node
        }
        return confirm;
    }

    private static boolean acked(CorrelationData confirm) throws InterruptedException {
        try {
            return confirm.getFuture().get().ack();
        } catch (ExecutionException e) {
            return false;
        }
    }
}
