// Package admin is the HTTP face of a node: the API under /api with RabbitMQ's field names, paging and status codes,
// /health/live and /health/ready, /metrics, and /debug/pprof for callers on the same machine.
//
// Guarantees: everything under /api needs a password (basic auth); bodies are bounded; a request that a browser sends
// from another origin, or with another content type than JSON, changes nothing. Every error has a JSON body with
// "error" and "reason". A login that cannot be judged yet, or not for certain, is answered with 503 and Retry-After, never with
// 401. A change that is answered with success is applied, and shows in this node's listings. What a caller
// may see and do is told by its tags, as in RabbitMQ: the users, the cluster, operator policies and vhosts' limits are for
// administrators to change, policies for policymakers too, and callers who are neither administrator nor monitoring see the
// vhosts alone that they have permissions in. Queues, exchanges and bindings are changed by the permissions in the vhost.
//
// A page of queues by name, or in no order, costs what its own rows cost, however many queues there are.
// A list without pages is sent while its rows are encoded, one at a time; rows of queues are made one at a time too, in steps between
// which the groups go on.
//
// Not guaranteed: that a listing is one cut over several vhosts; each vhost by itself is, but for queues, of which each is read by
// itself. What only one node knows (its connections and itself) is missing while that node does not answer.
//
// Concurrency: a Handler serves any number of requests; what Options names must be safe for that.
package admin
