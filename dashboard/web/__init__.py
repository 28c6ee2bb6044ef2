"""The live page, its API and the server of both: what an SRE opens during an incident."""
