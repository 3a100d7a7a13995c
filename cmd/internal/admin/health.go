package admin

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// live says that the process answers; nothing else.
func (h *Handler) live(w http.ResponseWriter, _ *http.Request) { healthy(w) }

// ready says whether clients are served.
func (h *Handler) ready(w http.ResponseWriter, _ *http.Request) {
	if err := h.o.Ready(); err != nil {
		failed(w, api.Health{Reason: err.Error()})
		return
	}
	healthy(w)
}

func healthy(w http.ResponseWriter) { passed(w, api.Health{}) }

func passed(w http.ResponseWriter, x api.Health) {
	x.Status = "ok"
	answer(w, http.StatusOK, x)
}

// failed answers 503 with the reason.
func failed(w http.ResponseWriter, x api.Health) {
	x.Status = "failed"
	answer(w, http.StatusServiceUnavailable, x)
}

func (h *Handler) healthRoutes() router {
	const checks = "/api/health/checks/"
	return router{
		{"GET", checks + "alarms", h.checkAlarms},
		{"GET", checks + "local-alarms", h.checkLocalAlarms},
		{"GET", checks + "virtual-hosts", h.checkGroups},
		{"GET", checks + "metadata-store/initialized", h.ready},
		{"GET", checks + "metadata-store/initialized/with-data", h.ready},
		{"GET", checks + "quorum-queues-without-elected-leaders/all-vhosts", h.checkGroups},
		{"GET", checks + "ready-to-serve-clients", h.ready},
		{"GET", checks + "is-in-service", h.ready},
		{"GET", checks + "node-is-quorum-critical", h.checkCritical},
		{"GET", checks + "node-is-mirror-sync-critical", h.checkCritical},
		{"GET", checks + "port-listener/{port}", h.checkPort},
		{"GET", checks + "protocol-listener/{protocol}", h.checkProtocol},
		{"GET", checks + "certificate-expiration/{within}/{unit}", h.checkCertificates},
		{"GET", "/api/healthchecks/node", h.checkAlarms},
		{"GET", "/api/healthchecks/node/{name}", h.checkAlarms},
		{"GET", "/api/aliveness-test/{vhost}", h.aliveness},
	}
}

// checkAlarms fails while a node is short of memory or disk, or as checkGroups does.
func (h *Handler) checkAlarms(w http.ResponseWriter, r *http.Request) {
	h.alarms(w, r, func(*api.Member, *api.Cluster) bool { return true })
}

// checkLocalAlarms is checkAlarms for the answering node alone.
func (h *Handler) checkLocalAlarms(w http.ResponseWriter, r *http.Request) {
	h.alarms(w, r, func(m *api.Member, c *api.Cluster) bool { return m.ID == c.Node })
}

func (h *Handler) alarms(w http.ResponseWriter, r *http.Request, counts func(*api.Member, *api.Cluster) bool) {
	c := h.o.Cluster.Cluster()
	if c.ReadOnly != "" {
		failed(w, api.Health{Reason: c.ReadOnly, Alarms: []api.Alarm{{Node: NodeName(c.Node), Resource: "disk"}}})
		return
	}
	var on []api.Alarm
	for i := range c.Members {
		if m := &c.Members[i]; counts(m, &c) {
			for _, resource := range m.Alarms {
				on = append(on, api.Alarm{Node: NodeName(m.ID), Resource: resource})
			}
		}
	}
	if len(on) > 0 {
		failed(w, api.Health{Reason: "alarms in effect", Alarms: on})
		return
	}
	h.checkGroups(w, r)
}

// groupFault says which group has stopped or has no leader; "" for none.
func (h *Handler) groupFault() string {
	for _, g := range h.o.Cluster.Groups() {
		switch name := "group " + strconv.FormatUint(g.Group, 10); {
		case g.Error != "":
			return name + " stopped: " + g.Error
		case g.Leader == 0:
			return name + " has no leader"
		}
	}
	return ""
}

// checkGroups fails if a group has stopped or has no leader.
func (h *Handler) checkGroups(w http.ResponseWriter, _ *http.Request) {
	if why := h.groupFault(); why != "" {
		failed(w, api.Health{Reason: why})
		return
	}
	healthy(w)
}

// checkCritical fails if a group would lose its majority with this node.
func (h *Handler) checkCritical(w http.ResponseWriter, _ *http.Request) {
	c := h.o.Cluster.Cluster()
	running, voters := 0, 0
	for _, m := range c.Members {
		if m.Role == "voter" {
			voters++
			if m.Running && m.ID != c.Node {
				running++
			}
		}
	}
	switch {
	case voters <= 1:
		passed(w, api.Health{Reason: "single node cluster"})
	case running < voters/2+1:
		failed(w, api.Health{Reason: "without this node " + strconv.Itoa(running) + " of " + strconv.Itoa(voters) + " voters are left: no majority"})
	default:
		healthy(w)
	}
}

// listeners are this node's own.
func (h *Handler) checkPort(w http.ResponseWriter, r *http.Request) {
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil {
		fail(w, http.StatusBadRequest, "bad_request", "a port is a number")
		return
	}
	ports := []int{}
	for _, l := range h.o.Cluster.Listeners() {
		ports = append(ports, l.Port)
	}
	if slices.Contains(ports, port) {
		passed(w, api.Health{Port: port})
		return
	}
	failed(w, api.Health{Reason: "No active listener", Missing: port, Ports: ports})
}

// protocolNames are other names of protocols of ours.
var protocolNames = map[string]string{"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp10": "amqp", "amqp1.0": "amqp", "amqps": "amqp/ssl"}

func (h *Handler) checkProtocol(w http.ResponseWriter, r *http.Request) {
	asked := r.PathValue("protocol")
	name, ok := protocolNames[asked]
	if !ok {
		name = asked
	}
	protocols := []string{}
	for _, l := range h.o.Cluster.Listeners() {
		protocols = append(protocols, l.Protocol)
	}
	if slices.Contains(protocols, name) {
		passed(w, api.Health{Protocol: name})
		return
	}
	failed(w, api.Health{Reason: "No active listener", Missing: asked, Protocols: protocols})
}

// checkCertificates fails if one of the node's certificates expires within the time that the path names.
func (h *Handler) checkCertificates(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("within"))
	until := time.Now()
	switch unit := r.PathValue("unit"); {
	case err != nil || n < 0 || n > 10_000:
		fail(w, http.StatusBadRequest, "bad_request", "Invalid expiration period")
		return
	case unit == "seconds":
		until = until.Add(time.Duration(n) * time.Second)
	case unit == "days":
		until = until.AddDate(0, 0, n)
	case unit == "weeks":
		until = until.AddDate(0, 0, 7*n)
	case unit == "months":
		until = until.AddDate(0, n, 0)
	case unit == "years":
		until = until.AddDate(n, 0, 0)
	default:
		fail(w, http.StatusBadRequest, "bad_request", "Time unit not recognised: days, weeks, months and years are")
		return
	}
	var expired []api.Expiring
	for _, c := range h.o.Cluster.Certificates() {
		if c.NotAfter.Before(until) {
			expired = append(expired, c)
		}
	}
	if expired != nil {
		failed(w, api.Health{Reason: "Certificates expiring", Expired: expired})
		return
	}
	healthy(w)
}

// aliveness says whether the vhost of the path takes messages. (RabbitMQ publishes one and gets it; here the vhost's group has
// to have a leader, and confirms what it takes.)
func (h *Handler) aliveness(w http.ResponseWriter, r *http.Request) {
	if _, ok := h.inVhost(w, r); ok {
		h.checkGroups(w, r)
	}
}
