"""Three machines: PostgreSQL under Patroni and etcd, HAProxy, and two nodes of Valetkey."""
