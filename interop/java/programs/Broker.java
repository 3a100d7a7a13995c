import com.rabbitmq.client.Address;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import java.net.URI;
import java.util.Arrays;
import java.util.List;

/** Where the broker is: the one thing that a program is told from outside. */
final class Broker {
    private Broker() {}

    static Connection connect() throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri(uri());
        return factory.newConnection();
    }

    /** The one address, with the vhost spelled out. */
    static URI uri() {
        return URI.create(System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F").replaceFirst("/$", "/%2F"));
    }

    static List<Address> addresses() {
        return Arrays.stream(System.getenv("AMQP_URLS").split(",")).map(URI::create).map(url -> new Address(url.getHost(), url.getPort())).toList();
    }

    static byte[] bytes(Object text) {
        return text.toString().getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }

    static String text(byte[] body) {
        return new String(body, java.nio.charset.StandardCharsets.UTF_8);
    }
}
