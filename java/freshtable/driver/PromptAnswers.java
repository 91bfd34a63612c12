package freshtable.driver;

import java.io.UncheckedIOException;
import java.net.SocketException;
import py4j.DefaultGatewayServerListener;
import py4j.Py4JServerConnection;

/**
 * Makes py4j send the end of each answer to Python immediately (TCP_NODELAY).
 *
 * <p>py4j writes answers in parts of 8 KiB. Without this, the last part of a longer answer waits until
 * Python's side has acknowledged the previous parts, which it delays by 40 ms.
 */
public final class PromptAnswers extends DefaultGatewayServerListener {
  @Override
  public void connectionStarted(Py4JServerConnection connection) {
    try {
      connection.getSocket().setTcpNoDelay(true);
    } catch (SocketException cause) {
      throw new UncheckedIOException(cause);
    }
  }
}
