"""The REST endpoint, which serves FLIP-91's SQL gateway and FLIP-448's refresh API over HTTP."""
