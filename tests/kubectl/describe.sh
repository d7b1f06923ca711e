# Describing objects and explaining kinds.
. "$(dirname "$0")/lib.sh"
widgets

k create configmap settings --from-literal=key=value >/dev/null
like 'Name: +settings' k describe configmap settings
prints "key:
----
value" k describe configmap settings
k create secret generic s --from-literal=password=hidden >/dev/null
prints 'password:  6 bytes' k describe secret s
lacks hidden k describe secret s
like 'Status: +Active' k describe namespace "$NAMESPACE"
k create deployment web --image=nginx >/dev/null
like ' +Image: +nginx' k describe deployment web
like 'Replicas: +1 desired \| 0 updated \| 0 total \| 0 available \| 0 unavailable' k describe deployment web
k apply -f - >/dev/null <<END
apiVersion: $GROUP/v1
kind: Widget
metadata: {name: w}
spec: {size: 3}
END
like ' +Size: +3' k describe widget w
like ' +Color: +red' k describe "widgets.$GROUP"
fails 'Error from server (NotFound): configmaps "zz" not found' k describe configmap zz

# explain: built-in and custom, nested and whole.
prints 'KIND:       ConfigMap' k explain configmap
prints 'VERSION:    v1' k explain configmap
prints 'data	<map[string]string>' k explain configmap
prints 'FIELD: replicas <integer>' k explain deployment.spec.replicas
prints 'FIELD: containers <[]Container>' k explain deployments.spec.template.spec.containers
prints 'containerPort	<integer> -required-' k explain pod.spec.containers.ports
prints 'KIND:       Widget' k explain widget
prints "GROUP:      $GROUP" k explain widget
prints 'A widget is a thing.' k explain widgets
prints 'size	<integer>' k explain widget.spec
prints 'How large it is.' k explain widget.spec.size
prints 'Number of the port.' k explain widget.spec.ports.port
prints 'metadata	<ObjectMeta>' k explain widget
prints 'ports	<[]Object>' k explain widget --recursive
fails 'field "nope" does not exist' k explain widget.spec.nope
