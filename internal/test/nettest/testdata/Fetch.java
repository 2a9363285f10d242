// Gets /hello from the server that its argument names, over HTTP and HTTPS.
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

public class Fetch {
    public static void main(String[] args) throws Exception {
        HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(60)).build();
        for (String scheme : new String[] {"http", "https"}) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(scheme + "://" + args[0] + "/hello")).timeout(Duration.ofSeconds(60)).build();
            String text = client.send(request, HttpResponse.BodyHandlers.ofString()).body();
            if (!text.equals("hello from " + args[0] + "\n")) {
                throw new IOException(text);
            }
        }
    }
}
