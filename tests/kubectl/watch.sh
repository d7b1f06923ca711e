# Watching and waiting.
. "$(dirname "$0")/lib.sh"
widgets

k create configmap old >/dev/null
k get cm -w --no-headers > seen 2>&1 &
watcher=$!
k get cm -w -o name --watch-only > names 2>&1 &
namer=$!
k get cm --output-watch-events -w -o 'jsonpath={.type} {.object.metadata.name}{"\n"}' > events 2>&1 &
eventer=$!
sleep 2
k create configmap new --from-literal=a=1 >/dev/null
k patch cm new --type=merge -p '{"data":{"b":"2"}}' >/dev/null
k delete cm new >/dev/null
eventually grep -qE '^new +2 ' seen
eventually sh -c '[ "$(grep -c configmap/new names)" = 3 ]'
eventually grep -q 'DELETED new' events
kill $watcher $namer $eventer
grep -qE '^old +0 ' seen || broken 'the list comes first' "$(cat seen)"
grep -qE '^new +1 ' seen || broken 'creation is seen' "$(cat seen)"
! grep -q old names || broken '--watch-only leaves out the list' "$(cat names)"
[ "$(grep new events)" = 'ADDED new
MODIFIED new
DELETED new' ] || broken 'events in order' "$(cat events)"

# wait: conditions, JSONPath, deletion, creation.
k apply -f - >/dev/null <<END
apiVersion: $GROUP/v1
kind: Widget
metadata: {name: w}
spec: {size: 3}
END
is "widget.$GROUP/w condition met" k wait --for=jsonpath='{.spec.size}'=3 widget/w --timeout=10s
(sleep 1; k patch widget w --subresource=status --type=merge -p '{"status":{"phase":"Ready"}}' >/dev/null) &
is "widget.$GROUP/w condition met" k wait --for=jsonpath='{.status.phase}'=Ready widget/w --timeout=20s
fails 'timed out waiting for the condition' k wait --for=jsonpath='{.status.phase}'=Never widget/w --timeout=1s
(sleep 1; k delete widget w >/dev/null) &
is "widget.$GROUP/w condition met" k wait --for=delete widget/w --timeout=20s
is '' k wait --for=delete cm -l none=such --timeout=1s

# Events.
is "No events found in $NAMESPACE namespace." k events
k create -f - >/dev/null <<END
apiVersion: v1
kind: Event
metadata: {name: e, namespace: $NAMESPACE}
involvedObject: {kind: ConfigMap, name: old, namespace: $NAMESPACE, apiVersion: v1, uid: $(field .metadata.uid cm old)}
reason: Tested
message: it was tested
type: Warning
source: {component: suite}
firstTimestamp: 2026-01-01T00:00:00Z
lastTimestamp: 2026-01-01T00:00:00Z
count: 2
END
like '.* +Warning +Tested +ConfigMap/old +it was tested' k events
like '.* +Warning +Tested +configmap/old +it was tested' k get events
prints 'it was tested' k describe configmap old
is event/e k get events --field-selector involvedObject.name=old,type=Warning -o name
is '' k get events --field-selector reason=Other -o name
is 'it was tested' field .note events.events.k8s.io e
