# Helpers of the kubectl scripts. A script is run with KUBECONFIG, KUBECTL and NAMESPACE set, in an
# empty folder; the first failed expectation ends it.
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

# is TEXT CMD...: succeeds and prints exactly TEXT.
is() {
    local text=$1
    shift
    run "$@"
    [ "$code" = 0 ] && [ "$output" = "$text" ] ||
        broken "$*" "expected: $text" "code: $code" "output: $output"
}

# prints TEXT CMD...: succeeds and its output contains TEXT.
prints() {
    local text=$1
    shift
    run "$@"
    case "$code:$output" in
    0:*"$text"*) ;;
    *) broken "$*" "expected somewhere: $text" "code: $code" "output: $output" ;;
    esac
}

# lacks TEXT CMD...: succeeds and its output does not contain TEXT.
lacks() {
    local text=$1
    shift
    run "$@"
    [ "$code" = 0 ] || broken "$*" "code: $code" "output: $output"
    case "$output" in
    *"$text"*) broken "$*" "not expected: $text" "output: $output" ;;
    esac
}

# like REGEX CMD...: succeeds and prints a line that matches REGEX completely.
like() {
    local regex=$1
    shift
    run "$@"
    [ "$code" = 0 ] && printf '%s\n' "$output" | grep -Eqx -- "$regex" ||
        broken "$*" "expected a line like: $regex" "code: $code" "output: $output"
}

# fails TEXT CMD...: fails and its output contains TEXT.
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

# code CODE CMD...: exits with CODE; sets $output.
code() {
    local expected=$1
    shift
    run "$@"
    [ "$code" = "$expected" ] || broken "$*" "expected code: $expected" "code: $code" "output: $output"
}

# eventually CMD...: retries until it succeeds, for 15 seconds.
eventually() {
    local tries=150
    until run "$@" && [ "$code" = 0 ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || broken "$*" "timed out" "code: $code" "output: $output"
        sleep 0.1
    done
}

# field EXPRESSION OBJECT...: prints one value, by JSONPath.
field() {
    local expression=$1
    shift
    k get "$@" -o "jsonpath={$expression}"
}

# widgets: a custom resource that uses most CRD features. CRDs are cluster-scoped, so every script
# has its own.
GROUP=$(printf '%s' "$NAMESPACE" | tr -d -- -).example.com
widgets() {
    k apply -f - <<END >/dev/null || broken "creating the CRD of widgets"
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
    eventually k get "widgets.$GROUP"
}
