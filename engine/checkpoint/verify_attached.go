package checkpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// verifyAttachments checks that the attachments of stage records and journal entries exist as undamaged
// objects. An attachment with several references is reported once.
func (s *Store) verifyAttachments(ctx context.Context, found objectStates, add func(Problem)) error {
	reported := map[string]bool{}
	return s.attachments(ctx, func(path, digest, what, fix string) {
		state := s.stateOf(found, digest)
		if state == intact || reported[digest] {
			return
		}

		reported[digest] = true
		if state == unreadable {
			fix = readable
		}
		add(Problem{Path: path, Detail: fmt.Sprintf("%s, object %s, is %s", what, short(digest), state), Fix: fix})
	})
}

// attachments calls visit for every reference to an attachment in stage records and journal entries: with the
// file that contains it, the digest, and for messages, a description and what restores the attachment.
func (s *Store) attachments(ctx context.Context, visit func(path, digest, what, fix string)) error {
	err := s.eachStage(func(path string, rec *StageRecord, err error) error {
		if err != nil {
			return nil // reported already
		}
		for _, digest := range rec.Outputs.Attached {
			visit(
				path,
				digest,
				"an attachment of "+rec.Address,
				"the rows are whole; aicplan apply --replace with the address of the collect measures its cases again, with "+
					"their attachments",
			)
		}
		return nil
	})
	if err != nil {
		return err
	}

	dirs, err := s.journalDirs("")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		segments, err := segmentPaths(dir)
		if err != nil {
			return err
		}

		for _, path := range segments {
			_, err := readSegment(path, 0, func(e Entry, _ int64, _ int) error {
				for _, a := range attachedTo(e) {
					visit(
						path,
						a.Digest,
						fmt.Sprintf("the attachment %q of case %s", a.Name, e.ID),
						"the case's entry is whole; aicplan apply --retry failed tries failed cases again, and --replace with the "+
							"address of the collect all",
					)
				}
				return nil
			})

			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}

	return nil
}

// attached is the part of stage.Attachment that is checked.
type attached struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// attachedTo returns the attachments of an entry.
func attachedTo(e Entry) []attached {
	if !bytes.Contains(e.Payload, []byte(`"attachments"`)) {
		return nil
	}
	var p struct {
		Attachments []attached `json:"attachments"`
	}
	if json.Unmarshal(e.Payload, &p) != nil {
		return nil // readers of the entry report the error
	}

	return p.Attachments
}
