package host

import (
	"path/filepath"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/worker"
)

// inMessage is the most bytes of a file that go to the engine in a message, where
// they are encoded, read and decoded; others go through the spool.
const inMessage = 16 << 10

// attach keeps a file with the case.
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
