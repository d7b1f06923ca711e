module kubevirt.io/vm-console-proxy/api

go 1.26.0
