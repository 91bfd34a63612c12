import time
import pytest
from mt_core.spark.driver.jvm import _register_dialects
from mt_core.spark.driver.jvm_objects import _lasting
pytestmark = pytest.mark.spark
def test_t(spark_driver):
    s=spark_driver.session
    _lasting.pop(s._jvm, None)
    t=time.perf_counter(); _register_dialects(s); print("DIALECT", time.perf_counter()-t)
