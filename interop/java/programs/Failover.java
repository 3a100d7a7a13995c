import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;

/**
 * Failover COUNT: publishes and consumes numbered messages while a node dies. The client's automatic recovery finds another
 * node and restores channels, queue and consumer; what was not confirmed is published again by the application.
 */
final class Failover implements RecoveryListener {
    private static final int BATCH = 10;
    private int lost; // connections, counted when their recovery begins
    private int recovered;

    public static void main(String[] args) throws Exception {
        new Failover().run(Integer.parseInt(args[0]));
    }

    private void run(int count) throws Exception {
        var factory = new ConnectionFactory();
        factory.setNetworkRecoveryInterval(100);
        Connection connection = factory.newConnection(Broker.addresses());
        ((Recoverable) connection).addRecoveryListener(this);
        var all = new CountDownLatch(count);
        consume(connection.createChannel(), all);
        var channel = connection.createChannel();
        channel.confirmSelect();
        Set<Integer> published = new HashSet<>();
        for (int n = 1; n <= count; n += BATCH) {
            while (!publish(channel, n, Math.min(count, n + BATCH - 1), published)) {}
        }
        all.await();
        System.out.println("done");
    }

    private static void consume(Channel channel, CountDownLatch all) throws IOException {
        Set<String> received = ConcurrentHashMap.newKeySet();
        channel.queueDeclare("failover.q", true, false, false, Map.of());
        channel.basicQos(20);
        channel.basicConsume("failover.q", false, (tag, delivery) -> {
            String n = Broker.text(delivery.getBody());
            System.out.println("received " + n + (delivery.getEnvelope().isRedeliver() ? " again" : ""));
            try {
                channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
            } catch (AlreadyClosedException e) {
                // It comes again.
            }
            if (received.add(n)) {
                all.countDown();
            }
        }, tag -> {});
    }

    /** Publishes the numbers and waits for their confirms; false if the connection was lost meanwhile and is there again. */
    private boolean publish(Channel channel, int first, int last, Set<Integer> published) throws Exception {
        int before = losses();
        try {
            for (int n = first; n <= last; n++) {
                if (!published.add(n)) {
                    System.out.println("published " + n + " again");
                }
                channel.basicPublish("", "failover.q", true, MessageProperties.PERSISTENT_BASIC, Broker.bytes(n));
            }
            channel.waitForConfirmsOrDie(30_000);
        } catch (ShutdownSignalException | IOException e) {
            awaitRecovery(before + 1);
            return false;
        }
        if (losses() > before) {
            awaitRecovery(losses());
            return false;
        }
        for (int n = first; n <= last; n++) {
            System.out.println("confirmed " + n);
        }
        return true;
    }

    private synchronized int losses() {
        return lost;
    }

    private synchronized void awaitRecovery(int count) throws InterruptedException {
        while (recovered < count) {
            wait();
        }
    }

    @Override
    public synchronized void handleRecoveryStarted(Recoverable connection) {
        lost++;
    }

    @Override
    public synchronized void handleRecovery(Recoverable connection) {
        recovered++;
        System.out.println("reconnected");
        notifyAll();
    }
}
