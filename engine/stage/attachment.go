package stage

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// AttachmentsColumn is the column with the attachments of a row, as a JSON list.
const AttachmentsColumn = "attachments"

// Attachment is a file that belongs to a row. It is an object in the state folder; see checkpoint.Store.GetBytes
// and ObjectPath.
type Attachment struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type"`
	Digest    string `json:"digest"` // "sha256:<hex>"
	Bytes     int64  `json:"bytes"`
}

// Attachments returns the attachments of one row. It returns nil if the table has no such column.
func Attachments(rec arrow.Record, row int) ([]Attachment, error) {
	at := slices.IndexFunc(rec.Schema().Fields(), func(f arrow.Field) bool { return f.Name == AttachmentsColumn })
	if at < 0 || rec.Column(at).IsNull(row) {
		return nil, nil
	}
	col, ok := rec.Column(at).(array.StringLike)
	if !ok {
		return nil, fmt.Errorf("the column %s is %s and not text", AttachmentsColumn, rec.Column(at).DataType())
	}
	if col.Value(row) == "" {
		return nil, nil
	}
	var out []Attachment
	if err := json.Unmarshal([]byte(col.Value(row)), &out); err != nil {
		return nil, fmt.Errorf("the attachments of row %d cannot be read: %w", row+1, err)
	}
	return out, nil
}

// AttachmentDigests returns the digests of the attachments of all rows, sorted and without repetition.
func AttachmentDigests(rec arrow.Record) ([]string, error) {
	if rec == nil || rec.Schema().FieldIndices(AttachmentsColumn) == nil {
		return nil, nil
	}
	var out []string
	for row := range int(rec.NumRows()) {
		list, err := Attachments(rec, row)
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			out = append(out, a.Digest)
		}
	}

	slices.Sort(out)
	return slices.Compact(out), nil
}
