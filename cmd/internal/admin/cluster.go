package admin

import (
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// CompatibleVersion is the RabbitMQ version whose API this one keeps to; tools look at it to choose their calls.
const CompatibleVersion = "3.13.7"

func (h *Handler) overview(w http.ResponseWriter, r *http.Request) {
	o := api.Overview{
		ManagementVersion: CompatibleVersion,
		ProductName:       "Understudy",
		ProductVersion:    h.o.Version,
		RabbitMQVersion:   CompatibleVersion,
		ClusterName:       h.o.Cluster.Cluster().ID,
		Node:              h.o.Cluster.Name(),
		MessageStats:      map[string]any{},
		Listeners:         h.o.Cluster.Listeners(),
	}
	for _, q := range h.state(r).Queues("") {
		o.ObjectTotals.Queues++
		o.QueueTotals.Messages += q.Messages
		o.QueueTotals.MessagesReady += q.MessagesReady
		o.QueueTotals.MessagesUnacknowledged += q.MessagesUnacknowledged
	}
	o.ObjectTotals.Exchanges = len(h.state(r).Exchanges(""))
	o.ObjectTotals.Consumers = len(h.state(r).Consumers(""))
	for _, c := range h.clients(r) {
		o.ObjectTotals.Connections++
		o.ObjectTotals.Channels += c.Channels
	}
	answer(w, http.StatusOK, o)
}

func (h *Handler) nodeRows() []api.Node {
	c := h.o.Cluster.Cluster()
	rows := make([]api.Node, 0, len(c.Members))
	for _, m := range c.Members {
		n := api.Node{
			Name: NodeName(m.ID), Type: "disc", Running: m.Running,
			MemAlarm: slices.Contains(m.Alarms, "memory"), DiskFreeAlarm: slices.Contains(m.Alarms, "disk"),
		}
		if m.ID == c.Node {
			n.Running, n.OSPid, n.Procs = true, strconv.Itoa(os.Getpid()), runtime.NumCPU()
		}
		rows = append(rows, n)
	}
	return rows
}

// NodeName is how listings name a node.
func NodeName(id uint64) string { return "understudy@" + strconv.FormatUint(id, 10) }

func (h *Handler) nodes(w http.ResponseWriter, r *http.Request) {
	list(w, r, h.nodeRows(), func(n api.Node) string { return n.Name })
}

func (h *Handler) node(w http.ResponseWriter, r *http.Request) {
	one(h, w, r, func(string) []api.Node { return h.nodeRows() },
		func(n api.Node) bool { return n.Name == r.PathValue("name") })
}

func (h *Handler) whoami(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, r.Context().Value(callerKey{}))
}

func (h *Handler) cluster(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, h.o.Cluster.Cluster())
}

func (h *Handler) members(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, h.o.Cluster.Cluster().Members)
}

func (h *Handler) groups(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, h.o.Cluster.Groups())
}

func (h *Handler) addMember(w http.ResponseWriter, r *http.Request) {
	var m api.NewMember
	if decode(w, r, &m) {
		done(w, h.o.Cluster.AddMember(r.Context(), m.ID, m.Address))
	}
}

// memberID reads {id}; false if it has answered 404.
func memberID(w http.ResponseWriter, r *http.Request) (uint64, bool) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		notFound(w, r)
		return 0, false
	}
	return id, true
}

func (h *Handler) promoteMember(w http.ResponseWriter, r *http.Request) {
	if id, ok := memberID(w, r); ok {
		done(w, h.o.Cluster.PromoteMember(r.Context(), id))
	}
}

func (h *Handler) removeMember(w http.ResponseWriter, r *http.Request) {
	if id, ok := memberID(w, r); ok {
		done(w, h.o.Cluster.RemoveMember(r.Context(), id))
	}
}

func (h *Handler) transferLeader(w http.ResponseWriter, r *http.Request) {
	var t api.Transfer
	if decode(w, r, &t) {
		done(w, h.o.Cluster.TransferLeader(r.Context(), t.Group, t.ID))
	}
}

// live says that the process answers; nothing else.
func (h *Handler) live(w http.ResponseWriter, _ *http.Request) { health(w, "") }

// ready says whether clients are served.
func (h *Handler) ready(w http.ResponseWriter, _ *http.Request) {
	if err := h.o.Ready(); err != nil {
		health(w, err.Error())
		return
	}
	health(w, "")
}

// health answers 200, or 503 with the reason why not.
func health(w http.ResponseWriter, reason string) {
	if reason == "" {
		answer(w, http.StatusOK, api.Health{Status: "ok"})
		return
	}
	answer(w, http.StatusServiceUnavailable, api.Health{Status: "failed", Reason: reason})
}

// checkAlarms fails while a node is short of memory or disk, or as checkGroups does.
func (h *Handler) checkAlarms(w http.ResponseWriter, r *http.Request) {
	h.alarms(w, r, func(api.Member, api.Cluster) bool { return true })
}

// checkLocalAlarms is checkAlarms for the answering node alone.
func (h *Handler) checkLocalAlarms(w http.ResponseWriter, r *http.Request) {
	h.alarms(w, r, func(m api.Member, c api.Cluster) bool { return m.ID == c.Node })
}

func (h *Handler) alarms(w http.ResponseWriter, r *http.Request, counts func(api.Member, api.Cluster) bool) {
	c := h.o.Cluster.Cluster()
	if c.ReadOnly != "" {
		health(w, c.ReadOnly)
		return
	}
	var on []string
	for _, m := range c.Members {
		if len(m.Alarms) > 0 && counts(m, c) {
			on = append(on, NodeName(m.ID)+": "+strings.Join(m.Alarms, ", "))
		}
	}
	if len(on) > 0 {
		health(w, "alarms in effect: "+strings.Join(on, "; "))
		return
	}
	h.checkGroups(w, r)
}

// checkGroups fails if a group has stopped or has no leader.
func (h *Handler) checkGroups(w http.ResponseWriter, _ *http.Request) {
	for _, g := range h.o.Cluster.Groups() {
		if g.Error != "" {
			health(w, "group "+strconv.FormatUint(g.Group, 10)+" stopped: "+g.Error)
			return
		}
		if g.Leader == 0 {
			health(w, "group "+strconv.FormatUint(g.Group, 10)+" has no leader")
			return
		}
	}
	health(w, "")
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
	if voters > 1 && running < voters/2+1 {
		health(w, "without this node "+strconv.Itoa(running)+" of "+strconv.Itoa(voters)+" voters are left: no majority")
		return
	}
	health(w, "")
}

func (h *Handler) checkPort(w http.ResponseWriter, r *http.Request) {
	h.checkListener(w, func(l api.Listener) bool { return strconv.Itoa(l.Port) == r.PathValue("port") })
}

func (h *Handler) checkProtocol(w http.ResponseWriter, r *http.Request) {
	h.checkListener(w, func(l api.Listener) bool { return l.Protocol == r.PathValue("protocol") })
}

func (h *Handler) checkListener(w http.ResponseWriter, is func(api.Listener) bool) {
	if slices.ContainsFunc(h.o.Cluster.Listeners(), is) {
		health(w, "")
		return
	}
	health(w, "No active listener")
}
