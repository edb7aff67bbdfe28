package load

import (
	"path/filepath"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/worker"
)

// inMessage is the maximum size in bytes of a file sent to the engine in a message, which has to be encoded
// and decoded. Larger files are written to the spool.
const inMessage = 16 << 10

// attach adds a file to the case's attachments.
func (h *Host) attach(c worker.Case, out worker.Emitter, f aiperf.File) error {
	a := worker.Attachment{Name: f.Name, MediaType: f.MediaType}
	if len(f.Data) <= inMessage {
		a.Data = f.Data
		out.Attach(c.Seq, a)
		return nil
	}

	s, err := worker.SpoolFile(h.init, f.Name)
	if err != nil {
		return err
	}

	_, err = s.Write(f.Data)
	if cerr := s.Close(); err == nil {
		err = cerr
	}

	if err != nil {
		return err
	}

	a.File = filepath.Base(s.Name())
	out.Attach(c.Seq, a)
	return nil
}
