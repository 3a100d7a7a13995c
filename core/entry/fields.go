package entry

// The fields of each command in wire order. New fields go to the end of a command under a new Version.

func (*NodeUp) Kind() Kind          { return KindNodeUp }
func (*NodeDown) Kind() Kind        { return KindNodeDown }
func (*LeaderUp) Kind() Kind        { return KindLeaderUp }
func (*Tick) Kind() Kind            { return KindTick }
func (*ClusterInit) Kind() Kind     { return KindClusterInit }
func (*VhostCreate) Kind() Kind     { return KindVhostCreate }
func (*Attach) Kind() Kind          { return KindAttach }
func (*Detach) Kind() Kind          { return KindDetach }
func (*End) Kind() Kind             { return KindEnd }
func (*ChannelOpen) Kind() Kind     { return KindChannelOpen }
func (*ChannelClose) Kind() Kind    { return KindChannelClose }
func (*ConfirmSelect) Kind() Kind   { return KindConfirmSelect }
func (*Qos) Kind() Kind             { return KindQos }
func (*ExchangeDeclare) Kind() Kind { return KindExchangeDeclare }
func (*ExchangeDelete) Kind() Kind  { return KindExchangeDelete }
func (*ExchangeBind) Kind() Kind    { return KindExchangeBind }
func (*ExchangeUnbind) Kind() Kind  { return KindExchangeUnbind }
func (*QueueDeclare) Kind() Kind    { return KindQueueDeclare }
func (*QueueDelete) Kind() Kind     { return KindQueueDelete }
func (*QueuePurge) Kind() Kind      { return KindQueuePurge }
func (*QueueBind) Kind() Kind       { return KindQueueBind }
func (*QueueUnbind) Kind() Kind     { return KindQueueUnbind }
func (*Consume) Kind() Kind         { return KindConsume }
func (*Cancel) Kind() Kind          { return KindCancel }
func (*Get) Kind() Kind             { return KindGet }
func (*Publish) Kind() Kind         { return KindPublish }
func (*Fragment) Kind() Kind        { return KindFragment }
func (*Settle) Kind() Kind          { return KindSettle }
func (*Recover) Kind() Kind         { return KindRecover }
func (*Written) Kind() Kind         { return KindWritten }
func (*TxSelect) Kind() Kind        { return KindTxSelect }
func (*TxCommit) Kind() Kind        { return KindTxCommit }
func (*TxRollback) Kind() Kind      { return KindTxRollback }
func (*VhostDelete) Kind() Kind     { return KindVhostDelete }
func (*VhostLimit) Kind() Kind      { return KindVhostLimit }
func (*PolicySet) Kind() Kind       { return KindPolicySet }
func (*PolicyDelete) Kind() Kind    { return KindPolicyDelete }

func (x *NodeUp) code(c *coder)      { c.u64(&x.Node); c.u64(&x.Nonce) }
func (x *NodeDown) code(c *coder)    { c.u64(&x.Node); c.u64(&x.Incarnation) }
func (x *LeaderUp) code(c *coder)    { c.u64(&x.Node); c.u64(&x.Term) }
func (x *Tick) code(*coder)          {}
func (x *ClusterInit) code(c *coder) { c.str(&x.ID); c.str(&x.Former) }
func (x *VhostCreate) code(c *coder) { c.str(&x.ID); c.str(&x.Name); c.str(&x.QueueType) }

func (x *Detach) code(c *coder)        { x.Ref.code(c) }
func (x *End) code(c *coder)           { x.Ref.code(c) }
func (x *ChannelOpen) code(c *coder)   { x.Ref.code(c) }
func (x *ChannelClose) code(c *coder)  { x.Ref.code(c); c.boolean(&x.Reply) }
func (x *ConfirmSelect) code(c *coder) { x.Ref.code(c); c.boolean(&x.NoWait) }
func (x *Qos) code(c *coder)           { x.Ref.code(c); c.u32(&x.Prefetch); c.boolean(&x.Global) }

func (x *ExchangeDeclare) code(c *coder) {
	x.Ref.code(c)
	c.str(&x.Name)
	c.str(&x.Type)
	c.boolean(&x.Passive)
	c.boolean(&x.Durable)
	c.boolean(&x.AutoDelete)
	c.boolean(&x.Internal)
	c.boolean(&x.NoWait)
	c.bytes(&x.Arguments)
}
func (x *ExchangeDelete) code(c *coder) {
	x.Ref.code(c)
	c.str(&x.Name)
	c.boolean(&x.IfUnused)
	c.boolean(&x.NoWait)
}
func (x *ExchangeBind) code(c *coder)   { x.Binding.code(c) }
func (x *ExchangeUnbind) code(c *coder) { x.Binding.code(c) }
func (x *QueueBind) code(c *coder)      { x.Binding.code(c) }
func (x *QueueUnbind) code(c *coder)    { x.Binding.code(c) }
func (x *Binding) code(c *coder) {
	x.Ref.code(c)
	c.str(&x.Destination)
	c.str(&x.Source)
	c.str(&x.Key)
	c.boolean(&x.NoWait)
	c.bytes(&x.Arguments)
}
func (x *QueueDeclare) code(c *coder) {
	x.Ref.code(c)
	c.str(&x.Name)
	c.boolean(&x.Passive)
	c.boolean(&x.Durable)
	c.boolean(&x.Exclusive)
	c.boolean(&x.AutoDelete)
	c.boolean(&x.NoWait)
	c.boolean(&x.Generated)
	c.bytes(&x.Arguments)
}
func (x *QueueDelete) code(c *coder) {
	x.Ref.code(c)
	c.str(&x.Name)
	c.boolean(&x.IfUnused)
	c.boolean(&x.IfEmpty)
	c.boolean(&x.NoWait)
}
func (x *QueuePurge) code(c *coder) { x.Ref.code(c); c.str(&x.Name); c.boolean(&x.NoWait) }
func (x *Consume) code(c *coder) {
	x.Ref.code(c)
	c.str(&x.Queue)
	c.str(&x.Tag)
	c.boolean(&x.NoLocal)
	c.boolean(&x.NoAck)
	c.boolean(&x.Exclusive)
	c.boolean(&x.NoWait)
	c.bytes(&x.Arguments)
}
func (x *Cancel) code(c *coder) { x.Ref.code(c); c.str(&x.Tag); c.boolean(&x.NoWait) }
func (x *Get) code(c *coder)    { x.Ref.code(c); c.str(&x.Queue); c.boolean(&x.NoAck) }
func (x *Publish) code(c *coder) {
	x.head(c)
	c.bytes(&x.Record)
}
func (x *Fragment) code(c *coder) { x.Ref.code(c); c.bytes(&x.Piece) }
func (x *Settle) code(c *coder) {
	x.Ref.code(c)
	x.Outcome.code(c)
	c.boolean(&x.Multiple)
	c.u64(&x.First)
	c.u64(&x.Last)
}
func (x *Recover) code(c *coder)    { x.Ref.code(c); c.boolean(&x.Requeue); c.boolean(&x.NoWait) }
func (x *Written) code(c *coder)    { x.Ref.code(c); c.u64(&x.Tag) }
func (x *TxSelect) code(c *coder)   { x.Ref.code(c) }
func (x *TxCommit) code(c *coder)   { x.Ref.code(c) }
func (x *TxRollback) code(c *coder) { x.Ref.code(c) }

func (x *VhostDelete) code(c *coder) { c.str(&x.ID) }
func (x *VhostLimit) code(c *coder) {
	c.str(&x.Vhost)
	c.i64(&x.MaxQueues)
	c.i64(&x.Connections)
}
func (x *PolicySet) code(c *coder) {
	c.str(&x.Vhost)
	c.str(&x.Name)
	c.str(&x.Pattern)
	c.str(&x.ApplyTo)
	c.i64(&x.Priority)
	c.boolean(&x.Operator)
	c.bytes(&x.Definition)
}
func (x *PolicyDelete) code(c *coder) {
	c.str(&x.Vhost)
	c.str(&x.Name)
	c.boolean(&x.Operator)
}
