# What the kubectl suites share. A script is run with KUBECONFIG, KUBECTL and NAMESPACE set, in an
# empty folder; the first expectation that does not hold ends it.
set -u
: "${KUBECTL:=kubectl}" "${NAMESPACE:?}" "${KUBECONFIG:?}"
export LC_ALL=C

k() { "$KUBECTL" --namespace "$NAMESPACE" "$@"; }

broken() {
    printf 'FAILED: %s\n' "$1"
    shift
    printf '%s\n' "$@"
    exit 1
}

# run CMD...: sets $output (both streams) and $code.
run() {
    code=0
    output=$("$@" 2>&1) || code=$?
}

# is TEXT CMD...: succeeds and writes exactly TEXT.
is() {
    local text=$1
    shift
    run "$@"
    [ "$code" = 0 ] && [ "$output" = "$text" ] ||
        broken "$*" "expected: $text" "code: $code" "output: $output"
}

# says TEXT CMD...: succeeds and writes TEXT somewhere.
says() {
    local text=$1
    shift
    run "$@"
    case "$code:$output" in
    0:*"$text"*) ;;
    *) broken "$*" "expected somewhere: $text" "code: $code" "output: $output" ;;
    esac
}

# lacks TEXT CMD...: succeeds and does not write TEXT.
lacks() {
    local text=$1
    shift
    run "$@"
    [ "$code" = 0 ] || broken "$*" "code: $code" "output: $output"
    case "$output" in
    *"$text"*) broken "$*" "not expected: $text" "output: $output" ;;
    esac
}

# like REGEX CMD...: succeeds and writes a line that matches REGEX as a whole.
like() {
    local regex=$1
    shift
    run "$@"
    [ "$code" = 0 ] && printf '%s\n' "$output" | grep -Eqx -- "$regex" ||
        broken "$*" "expected a line like: $regex" "code: $code" "output: $output"
}

# fails TEXT CMD...: does not succeed and writes TEXT somewhere.
fails() {
    local text=$1
    shift
    run "$@"
    [ "$code" != 0 ] || broken "$*" "expected a failure" "output: $output"
    case "$output" in
    *"$text"*) ;;
    *) broken "$*" "expected somewhere: $text" "code: $code" "output: $output" ;;
    esac
}

# code CODE CMD...: ends with CODE; for what follows, $output is there.
code() {
    local expected=$1
    shift
    run "$@"
    [ "$code" = "$expected" ] || broken "$*" "expected code: $expected" "code: $code" "output: $output"
}

# soon CMD...: succeeds within some seconds.
soon() {
    local tries=150
    until run "$@" && [ "$code" = 0 ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || broken "$*" "waited in vain" "code: $code" "output: $output"
        sleep 0.1
    done
}

# field EXPRESSION OBJECT...: one value, by JSONPath.
field() {
    local expression=$1
    shift
    k get "$@" -o "jsonpath={$expression}"
}

# widgets: a custom kind with most of what definitions can say. Definitions are shared by all
# namespaces of a cluster, so every script has one of its own.
GROUP=$(printf '%s' "$NAMESPACE" | tr -d -- -).example.com
widgets() {
    k apply -f - <<END >/dev/null || broken "defining widgets"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: widgets.$GROUP
spec:
  group: $GROUP
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList, shortNames: [wd], categories: [demo]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    selectableFields:
    - jsonPath: .spec.color
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    schema:
      openAPIV3Schema:
        description: A widget is a thing.
        type: object
        properties:
          spec:
            description: What is wanted.
            type: object
            properties:
              size: {type: integer, minimum: 1, description: How large it is.}
              color: {type: string, enum: [red, green, blue], default: red}
              replicas: {type: integer}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [port]
                items:
                  type: object
                  required: [port]
                  properties:
                    port: {type: integer, description: Number of the port.}
                    name: {type: string}
            x-kubernetes-validations:
            - {rule: "!has(self.size) || self.size < 100", message: too large}
          status:
            type: object
            properties:
              replicas: {type: integer}
              phase: {type: string}
END
    k wait --for=condition=Established "crd/widgets.$GROUP" --timeout=20s >/dev/null ||
        broken "widgets are not established"
    soon k get "widgets.$GROUP"
}
