package stage

import "github.com/apache/arrow/go/v17/arrow"

// LedgerSchema is the schema of Dataset.Ledger: one row for every planned case
// that has no measurement.
//
//	case_id     the case
//	params      the case's parameters as one JSON object
//	status      failed | skipped
//	class       collector_bug | unsupported_config | framework_bug |
//	            resource_issue | transient | timeout | tripped | ramp |
//	            not_selected | interrupted
//	group       the breaker's or ramp's group, "" without one
//	type        exception class or signal
//	message     first line of the error, or the reason for the skip
//	traceback   full text
//	attempts    how often it was tried
//	worker      slot that tried it last
//	device_uuid device of the last try
//	at          RFC 3339 time of the last try
var LedgerSchema = arrow.NewSchema([]arrow.Field{
	{Name: "case_id", Type: arrow.BinaryTypes.String},
	{Name: "params", Type: arrow.BinaryTypes.String},
	{Name: "status", Type: arrow.BinaryTypes.String},
	{Name: "class", Type: arrow.BinaryTypes.String},
	{Name: "group", Type: arrow.BinaryTypes.String},
	{Name: "type", Type: arrow.BinaryTypes.String},
	{Name: "message", Type: arrow.BinaryTypes.String},
	{Name: "traceback", Type: arrow.BinaryTypes.String},
	{Name: "attempts", Type: arrow.PrimitiveTypes.Int64},
	{Name: "worker", Type: arrow.BinaryTypes.String},
	{Name: "device_uuid", Type: arrow.BinaryTypes.String},
	{Name: "at", Type: arrow.BinaryTypes.String},
}, nil)
