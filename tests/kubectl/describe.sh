# Describing objects and explaining kinds.
. "$(dirname "$0")/lib.sh"
widgets

k create configmap settings --from-literal=key=value >/dev/null
like 'Name: +settings' k describe configmap settings
says "key:
----
value" k describe configmap settings
k create secret generic s --from-literal=password=hidden >/dev/null
says 'password:  6 bytes' k describe secret s
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
says 'KIND:       ConfigMap' k explain configmap
says 'VERSION:    v1' k explain configmap
says 'data	<map[string]string>' k explain configmap
says 'FIELD: replicas <integer>' k explain deployment.spec.replicas
says 'FIELD: containers <[]Container>' k explain deployments.spec.template.spec.containers
says 'containerPort	<integer> -required-' k explain pod.spec.containers.ports
says 'KIND:       Widget' k explain widget
says "GROUP:      $GROUP" k explain widget
says 'A widget is a thing.' k explain widgets
says 'size	<integer>' k explain widget.spec
says 'How large it is.' k explain widget.spec.size
says 'Number of the port.' k explain widget.spec.ports.port
says 'metadata	<ObjectMeta>' k explain widget
says 'ports	<[]Object>' k explain widget --recursive
fails 'field "nope" does not exist' k explain widget.spec.nope
