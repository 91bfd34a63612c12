package freshtable.functions;

import java.io.File;
import java.io.UncheckedIOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkFiles;

/** Users' classes. Each distinct list of jars has one class loader per JVM. */
final class UserClasses {
  private static final ConcurrentHashMap<List<String>, ClassLoader> LOADERS = new ConcurrentHashMap<>();

  private UserClasses() {}

  /**
   * Returns the class from jars that Spark received as files, or from jars added to Spark if {@code jars} is
   * empty.
   */
  static Class<?> load(List<String> jars, String className) throws ClassNotFoundException {
    ClassLoader loader = jars.isEmpty()
        ? Thread.currentThread().getContextClassLoader()
        : LOADERS.computeIfAbsent(jars, UserClasses::loader);
    return Class.forName(className, true, loader);
  }

  /** Returns an instance created by the constructor without parameters. */
  static Object instance(List<String> jars, String className) throws ReflectiveOperationException {
    return load(jars, className).getConstructor().newInstance();
  }

  private static ClassLoader loader(List<String> jars) {
    URL[] urls = jars.stream().map(UserClasses::url).toArray(URL[]::new);
    return new URLClassLoader(urls, UserClasses.class.getClassLoader());
  }

  private static URL url(String jar) {
    try {
      return new File(SparkFiles.get(jar)).toURI().toURL();
    } catch (MalformedURLException error) {
      throw new UncheckedIOException(error);
    }
  }
}
