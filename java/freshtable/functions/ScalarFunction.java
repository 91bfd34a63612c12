package freshtable.functions;

import java.util.List;
import org.apache.spark.sql.api.java.*;

/** A scalar function of a user's class, loaded from the function's own jars in each JVM that calls it. */
@SuppressWarnings("unchecked")
final class ScalarFunction
    implements UDF0<Object>,
        UDF1<Object, Object>,
        UDF2<Object, Object, Object>,
        UDF3<Object, Object, Object, Object>,
        UDF4<Object, Object, Object, Object, Object>,
        UDF5<Object, Object, Object, Object, Object, Object>,
        UDF6<Object, Object, Object, Object, Object, Object, Object>,
        UDF7<Object, Object, Object, Object, Object, Object, Object, Object>,
        UDF8<Object, Object, Object, Object, Object, Object, Object, Object, Object>,
        UDF9<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object>,
        UDF10<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object>,
        UDF11<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object>,
        UDF12<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object>,
        UDF13<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object>,
        UDF14<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object>,
        UDF15<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object>,
        UDF16<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object>,
        UDF17<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object>,
        UDF18<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object>,
        UDF19<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object, Object>,
        UDF20<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object, Object, Object>,
        UDF21<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object, Object, Object, Object>,
        UDF22<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object> {
  private static final long serialVersionUID = 1L;

  private final OfTask<Object> target;

  ScalarFunction(List<String> jars, String className) {
    this.target = new OfTask<>(jars, className);
  }

  private Object target() throws ReflectiveOperationException {
    return target.get();
  }

  @Override
  public Object call() throws Exception {
    return ((UDF0<Object>) target()).call();
  }

  @Override
  public Object call(Object a0) throws Exception {
    return ((UDF1<Object, Object>) target()).call(a0);
  }

  @Override
  public Object call(Object a0, Object a1) throws Exception {
    return ((UDF2<Object, Object, Object>) target()).call(a0, a1);
  }

  @Override
  public Object call(Object a0, Object a1, Object a2) throws Exception {
    return ((UDF3<Object, Object, Object, Object>) target()).call(a0, a1, a2);
  }

  @Override
  public Object call(Object a0, Object a1, Object a2, Object a3) throws Exception {
    return ((UDF4<Object, Object, Object, Object, Object>) target()).call(a0, a1, a2, a3);
  }

  @Override
  public Object call(Object a0, Object a1, Object a2, Object a3, Object a4) throws Exception {
    return ((UDF5<Object, Object, Object, Object, Object, Object>) target()).call(a0, a1, a2, a3, a4);
  }

  @Override
  public Object call(Object a0, Object a1, Object a2, Object a3, Object a4, Object a5) throws Exception {
    return ((UDF6<Object, Object, Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6)
      throws Exception {
    return ((UDF7<Object, Object, Object, Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7)
      throws Exception {
    return ((UDF8<Object, Object, Object, Object, Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8)
      throws Exception {
    return ((UDF9<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9)
      throws Exception {
    return ((UDF10<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10)
      throws Exception {
    return ((UDF11<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11)
      throws Exception {
    return ((UDF12<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11, Object a12)
      throws Exception {
    return ((UDF13<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11, Object a12, Object a13)
      throws Exception {
    return ((UDF14<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11, Object a12, Object a13, Object a14)
      throws Exception {
    return ((UDF15<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11, Object a12, Object a13, Object a14, Object a15)
      throws Exception {
    return ((UDF16<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11, Object a12, Object a13, Object a14, Object a15, Object a16)
      throws Exception {
    return ((UDF17<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11, Object a12, Object a13, Object a14, Object a15, Object a16,
      Object a17)
      throws Exception {
    return ((UDF18<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11, Object a12, Object a13, Object a14, Object a15, Object a16,
      Object a17, Object a18)
      throws Exception {
    return ((UDF19<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11, Object a12, Object a13, Object a14, Object a15, Object a16,
      Object a17, Object a18, Object a19)
      throws Exception {
    return ((UDF20<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11, Object a12, Object a13, Object a14, Object a15, Object a16,
      Object a17, Object a18, Object a19, Object a20)
      throws Exception {
    return ((UDF21<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20);
  }

  @Override
  public Object call(
      Object a0, Object a1, Object a2, Object a3, Object a4, Object a5, Object a6, Object a7, Object a8,
      Object a9, Object a10, Object a11, Object a12, Object a13, Object a14, Object a15, Object a16,
      Object a17, Object a18, Object a19, Object a20, Object a21)
      throws Exception {
    return ((UDF22<Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object, Object, Object, Object, Object, Object, Object, Object, Object, Object, Object,
            Object>) target())
        .call(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20,
        a21);
  }
}
