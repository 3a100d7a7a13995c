package v091

import (
	"fmt"

	"github.com/understudy-mq/understudy/amqp/v091/wire"
	"github.com/understudy-mq/understudy/core"
	"github.com/understudy-mq/understudy/core/entry"
)

// replyCodes is the one table from a refusal's class to 0-9-1's reply codes.
var replyCodes = [...]uint16{
	core.CodeOK:                 wire.ReplyReplySuccess,
	core.CodeContentTooLarge:    wire.ReplyContentTooLarge,
	core.CodeNoRoute:            wire.ReplyNoRoute,
	core.CodeAccessRefused:      wire.ReplyAccessRefused,
	core.CodeNotFound:           wire.ReplyNotFound,
	core.CodeResourceLocked:     wire.ReplyResourceLocked,
	core.CodePreconditionFailed: wire.ReplyPreconditionFailed,
	core.CodeConnectionForced:   wire.ReplyConnectionForced,
	core.CodeInvalidPath:        wire.ReplyInvalidPath,
	core.CodeFrameError:         wire.ReplyFrameError,
	core.CodeSyntaxError:        wire.ReplySyntaxError,
	core.CodeCommandInvalid:     wire.ReplyCommandInvalid,
	core.CodeChannelError:       wire.ReplyChannelError,
	core.CodeUnexpectedFrame:    wire.ReplyUnexpectedFrame,
	core.CodeResourceError:      wire.ReplyResourceError,
	core.CodeNotAllowed:         wire.ReplyNotAllowed,
	core.CodeNotImplemented:     wire.ReplyNotImplemented,
	core.CodeInternalError:      wire.ReplyInternalError,
}

func replyCode(c core.Code) uint16 {
	if int(c) < len(replyCodes) {
		return replyCodes[c]
	}
	return wire.ReplyInternalError
}

// replyText is "NAME - explanation", the form that applications match on, cut to a short string as RabbitMQ cuts it.
func replyText(code core.Code, explanation string) string {
	text := wire.ReplyName(replyCode(code)) + " - " + explanation
	if len(text) > 255 {
		text = text[:252] + "..."
	}
	return text
}

// methodOf names the method that a command came from, for the class and method ids of a close.
var methodOf = map[entry.Kind]wire.ID{
	entry.KindAttach:          wire.IDConnectionOpen,
	entry.KindChannelOpen:     wire.IDChannelOpen,
	entry.KindChannelClose:    wire.IDChannelClose,
	entry.KindConfirmSelect:   wire.IDConfirmSelect,
	entry.KindQos:             wire.IDBasicQos,
	entry.KindExchangeDeclare: wire.IDExchangeDeclare,
	entry.KindExchangeDelete:  wire.IDExchangeDelete,
	entry.KindExchangeBind:    wire.IDExchangeBind,
	entry.KindExchangeUnbind:  wire.IDExchangeUnbind,
	entry.KindQueueDeclare:    wire.IDQueueDeclare,
	entry.KindQueueDelete:     wire.IDQueueDelete,
	entry.KindQueuePurge:      wire.IDQueuePurge,
	entry.KindQueueBind:       wire.IDQueueBind,
	entry.KindQueueUnbind:     wire.IDQueueUnbind,
	entry.KindConsume:         wire.IDBasicConsume,
	entry.KindCancel:          wire.IDBasicCancel,
	entry.KindGet:             wire.IDBasicGet,
	entry.KindPublish:         wire.IDBasicPublish,
	entry.KindFragment:        wire.IDBasicPublish,
	entry.KindRecover:         wire.IDBasicRecover,
	entry.KindTxSelect:        wire.IDTxSelect,
	entry.KindTxCommit:        wire.IDTxCommit,
	entry.KindTxRollback:      wire.IDTxRollback,
}

// settledBy names the method that an outcome came by.
func settledBy(o entry.Outcome) wire.ID {
	switch o {
	case entry.Accepted:
		return wire.IDBasicAck
	case entry.Released, entry.Rejected | entry.ByNack:
		return wire.IDBasicNack
	}
	return wire.IDBasicReject
}

// fault is why the endpoint itself refuses what a client sent. Soft ones end the channel, hard ones the connection.
type fault struct {
	code core.Code
	text string
	id   wire.ID // the method at fault, 0 for none
	hard bool
	// named says that a named session was refused: the client hears it behind open-ok.
	named bool
	// broken says that the stream is out of step: no frame after it can be read.
	broken bool
}

func (f *fault) Error() string { return replyText(f.code, f.text) }

func refuse(code core.Code, id wire.ID, format string, args ...any) *fault {
	return &fault{code: code, id: id, text: fmt.Sprintf(format, args...), hard: code.Hard()}
}

func connectionClose(f *fault) *wire.ConnectionClose {
	return &wire.ConnectionClose{
		ReplyCode: replyCode(f.code), ReplyText: f.Error(), ClassID: f.id.Class(), MethodID: f.id.Method(),
	}
}

func channelClose(f *fault) *wire.ChannelClose {
	return &wire.ChannelClose{
		ReplyCode: replyCode(f.code), ReplyText: f.Error(), ClassID: f.id.Class(), MethodID: f.id.Method(),
	}
}
