package admin

import (
	"net/http"
	"strconv"

	"github.com/understudy-mq/understudy/cmd/internal/api"
)

// CompatibleVersion is the RabbitMQ version whose API this one keeps to; tools look at it to choose their calls.
const CompatibleVersion = "3.13.7"

func (h *Handler) overview(w http.ResponseWriter, r *http.Request) {
	state, listeners := h.state(r), h.o.Cluster.Listeners()
	o := api.Overview{
		ManagementVersion: CompatibleVersion,
		RatesMode:         "basic",
		ExchangeTypes:     ExchangeTypes,
		ProductName:       "Understudy",
		ProductVersion:    h.o.Version,
		RabbitMQVersion:   CompatibleVersion,
		ClusterName:       h.o.Cluster.Cluster().ID,
		Node:              h.o.Cluster.Name(),
		Listeners:         listeners,
		Contexts:          []api.Context{},
	}
	vhosts := state.VhostNames()
	o.Traffic, o.QueueTotals = state.Traffic(vhosts), state.Totals(vhosts)
	o.ObjectTotals.Queues = len(state.QueueRefs(""))
	o.ObjectTotals.Exchanges = len(state.Exchanges(""))
	o.ObjectTotals.Consumers = len(state.Consumers(""))
	o.ObjectTotals.Connections = h.countClients(r)
	o.ObjectTotals.Channels = len(h.openChannels(r, ""))
	for _, l := range listeners {
		if l.Protocol == "http" {
			o.Contexts = append(o.Contexts, api.Context{
				Node: l.Node, Description: "Understudy Management", Path: "/", IP: l.IPAddress, Port: strconv.Itoa(l.Port),
			})
		}
	}
	answer(w, http.StatusOK, o)
}

// NodeName is how listings name a node.
func NodeName(id uint64) string { return "understudy@" + strconv.FormatUint(id, 10) }

func (h *Handler) nodes(w http.ResponseWriter, r *http.Request) {
	list(w, r, h.o.Cluster.Nodes(r.Context()), func(n api.Node) string { return n.Name })
}

func (h *Handler) node(w http.ResponseWriter, r *http.Request) {
	one(h, w, r, func(string) []api.Node { return h.o.Cluster.Nodes(r.Context()) },
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
	if decodeStrictly(w, r, &m) {
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
	if decodeStrictly(w, r, &t) {
		done(w, h.o.Cluster.TransferLeader(r.Context(), t.Group, t.ID))
	}
}
