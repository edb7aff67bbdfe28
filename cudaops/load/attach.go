package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"aicplan/cudaops/worker"
)

// inMessage is the maximum size in bytes of a file sent to the engine in a message, which has to be encoded
// and decoded. Larger files are written to the spool.
const inMessage = 16 << 10

// Attach adds a file with the content of from to a case.
func Attach(init worker.Init, out worker.Emitter, seq int64, a worker.Attachment, from io.Reader) error {
	head, err := io.ReadAll(io.LimitReader(from, inMessage+1))
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}

	if len(head) <= inMessage {
		a.Data = head
		out.Attach(seq, a)
		return nil
	}

	f, err := worker.SpoolFile(init, a.Name)
	if err != nil {
		return err
	}

	_, err = io.Copy(f, io.MultiReader(bytes.NewReader(head), from))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}

	a.File = filepath.Base(f.Name())
	out.Attach(seq, a)
	return nil
}
