READS = ()
