package freshtable.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** The place of an operator: the number of a tree, and the positions of children from its root. */
record Place(int tree, List<Integer> path) {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Returns the place in a JSON array of both. */
  static Place of(JsonNode json) {
    List<Integer> path = new ArrayList<>();
    json.get(1).forEach(each -> path.add(each.asInt()));
    return new Place(json.get(0).asInt(), path);
  }

  static Place of(String json) throws JsonProcessingException {
    return of(JSON.readTree(json));
  }

  static Place root(int tree) {
    return new Place(tree, List.of());
  }

  Place child(int position) {
    return new Place(tree, Stream.concat(path.stream(), Stream.of(position)).toList());
  }

  /** Returns the operator at this place. */
  LogicalPlan in(List<LogicalPlan> trees) {
    LogicalPlan operator = trees.get(tree);
    for (int position : path) {
      operator = operator.children().apply(position);
    }
    return operator;
  }

  /** Returns the place as JSON. */
  @Override
  public String toString() {
    return JSON.createArrayNode().add(tree).add(JSON.valueToTree(path)).toString();
  }
}
